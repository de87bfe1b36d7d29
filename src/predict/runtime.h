// What a rank holds on the device outside the allocator.
#pragma once

#include "job/job.h"
#include "machine/runtime.h"

namespace steelyard {

// CUDA context and the communicators that the layout uses.
RuntimeBytes runtime_bytes(const Job& job);
// What an engine that generates on this device takes of it while it does, weights and cache together: beside the trainer all
// the time, and then part of runtime_bytes(), or only between two steps where it sleeps.
RuntimeBytes generator_bytes(const Job& job);

}  // namespace steelyard
