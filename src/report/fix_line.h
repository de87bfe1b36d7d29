// A changed line of the user's file in few words: the place, the key, and what becomes of its value.
//
//   qlora.yml:14 micro_batch_size: 4 -> 1
//   train.sh:9 --per_device_train_batch_size 8 -> 2
//   qlora.yml:15 + gradient_checkpointing: true
#pragma once

#include <string>

#include "diagnose/diagnosis.h"

namespace steelyard {

std::string fix_line_text(const FixLine& line);

}  // namespace steelyard
