// Many launch files at once, one line each: what every file is read as, and what of it was not read.
//
//   steelyard import --check configs/
//   configs/8b.yaml    Axolotl YAML       llama-3.1-8b    8 devices
//   configs/own.sh     Trainer arguments  gpt2            not said: devices    not read: lora_enable, bits
//   configs/odd.json   refused: optimizer: the optimizer "x" is not known (line 5)
//
//   3 launch files: 1 read whole, 1 with keys that may change memory and were not read, 1 refused
//
// Exit 0: all are read whole; 1: something was not read. Files that launch nothing are counted and not listed.
#pragma once

#include "cli/command.h"

namespace steelyard {

int import_check(const Invocation& invocation);

}  // namespace steelyard
