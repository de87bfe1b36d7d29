// Megatron-DeepSpeed's --pp-partition-method: which parts of the model count when a pipeline is divided into equal stages.
//
//   type:transformer              layers alone: 70 layers on 14 stages are 5 each
//   type:transformer|embedding    the embedding and the head count as a layer: 70 on 12 stages are 5, 6, ..., 6, 5
#pragma once

#include <cstdint>

#include "formats/launch/mapping.h"

namespace steelyard {

void read_megatron_partition(ConfigReader& reading, std::int64_t pipeline);

}  // namespace steelyard
