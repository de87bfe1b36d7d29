// What a rank holds on the device outside the allocator.
#pragma once

#include "job/job.h"
#include "machine/runtime.h"

namespace steelyard {

// CUDA context and the communicators that the layout uses.
RuntimeBytes runtime_bytes(const Job& job);

}  // namespace steelyard
