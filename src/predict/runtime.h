// What a rank holds on the device outside the allocator, and what the allocator reserves beyond what is allocated.
#pragma once

#include "job/job.h"
#include "machine/runtime.h"

namespace steelyard {

// CUDA context and the communicators that the layout uses.
RuntimeBytes runtime_bytes(const Job& job);

// Segments of the caching allocator that are reserved and not allocated, as a share of what comes and goes in a step.
// Until the allocator itself is simulated this is an allowance, from published logs that print both numbers.
struct SlackAllowance {
  double low = 0, expected = 0, high = 0;
  std::string source;
};
SlackAllowance slack_allowance();

}  // namespace steelyard
