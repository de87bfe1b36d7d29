// How many devices a launcher takes, from its own options.
//
//   torchrun --nnodes 2 --nproc_per_node 8     16, 8 of a machine
//   mpirun -np 16 python train.py              16
#pragma once

#include <span>
#include <string_view>

#include "formats/launch/formats.h"
#include "formats/launch/mapping.h"

namespace steelyard {

// nodes x devices of each.
void say_devices(Launch& launch, const Value* nodes, const Value* each, std::string_view launcher);

// `starter`: the words before the program, of mpirun or srun. A process is a device, where the program itself does
// not say otherwise.
void count_processes(std::span<const Value> starter, Launch& launch);

}  // namespace steelyard
