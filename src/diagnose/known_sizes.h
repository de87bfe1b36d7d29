// Sizes of blocks that are known without a run.
//
//   on_grain(1000)   1024
#pragma once

#include <cstdint>

#include "allocator/request_sizes.h"

namespace steelyard {

// As the allocator rounds a request.
constexpr std::int64_t on_grain(std::int64_t size) { return rounded_up(size, kSmallestBlock); }

// cuBLAS's workspace, one for each thread and stream (ATen/cuda/CublasHandlePool.cpp, parseChosenWorkspaceSize): 32 MiB on
// compute 9.0, else 4096 x 2 + 16 x 8 KiB.
constexpr std::int64_t kCublasWorkspaceOfHopper = 33'554'432;
constexpr std::int64_t kCublasWorkspace = 8'519'680;

}  // namespace steelyard
