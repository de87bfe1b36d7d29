// What a profiler's trace of one rank says of time and memory.
//
//   5 steps of 0.345 s, device busy 57.7 % (communication 20.6 %, exposed 20.6 %), idle 42.3 %
//   device 1: peak allocated 6.17 GiB, reserved 11.90 GiB
//
// The span is from the first to the last activity of the device. Computing is the union of all kernels but those of
// communication, of copies and fills; communication is exposed where nothing computes beside it; the rest is idle.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "quantity/quantity.h"

namespace steelyard {

struct TraceStep {
  std::int64_t number = 0;
  double seconds = 0.0;  // of the host: the first may be partial, and the device may lag
};
struct ProfiledMemory {
  std::int64_t device = 0;
  Bytes peak_allocated, peak_reserved;
  std::int64_t events = 0;
  bool from_start =
      false;  // without totals: the sum of what was allocated since the trace began, over an unknown base
};
struct TraceCollective {
  std::int64_t count = 0;
  double seconds = 0.0;  // with the wait for the slowest rank
};

struct TraceTimes {
  std::optional<std::int64_t> rank, world_size;
  bool device_activity = false;
  double span_seconds = 0.0, busy_seconds = 0.0, communication_seconds = 0.0, exposed_seconds = 0.0,
         idle_seconds = 0.0;
  std::vector<TraceStep> steps;
  std::vector<ProfiledMemory> memory;
  std::map<std::string, TraceCollective> collectives;  // by operation
  std::optional<Bytes> device_total;
  std::int64_t kernels = 0;
  std::int64_t driver_allocations =
      0;  // cudaMalloc and cudaFree: in steady state the allocator was out of memory
  double data_loader_seconds = 0.0;  // of the host, in the loader's next
  double synchronize_seconds = 0.0;  // of the host, waiting for the device
};

}  // namespace steelyard
