// What torch.cuda.memory_stats() counts.
//
//   requested <= allocated <= active <= reserved
//
//   requested        as asked for, of what is active
//   allocated        rounded, in the hands of the program                memory_allocated()
//   active           allocated, or freed and still awaited by a stream
//   reserved         segments, or mapped pages                           memory_reserved()
//   inactive split   free parts of segments that hold something: no cudaFree gives them back
//
// Source: pytorch c10/core/CachingDeviceAllocator.h (DeviceStats).
#pragma once

#include <array>
#include <cstdint>

#include "quantity/quantity.h"

namespace steelyard {

struct Gauge {
  std::int64_t current = 0;
  std::int64_t peak = 0;

  constexpr void rise(std::int64_t amount) {
    current += amount;
    if (current > peak) peak = current;
  }
  constexpr void fall(std::int64_t amount) { current -= amount; }
  friend constexpr bool operator==(const Gauge&, const Gauge&) = default;
};

// Bytes, and how many blocks they are.
struct BlockGauge {
  Gauge bytes, count;

  constexpr void rise(std::int64_t amount) {
    bytes.rise(amount);
    count.rise(1);
  }
  constexpr void fall(std::int64_t amount) {
    bytes.fall(amount);
    count.fall(1);
  }
  friend constexpr bool operator==(const BlockGauge&, const BlockGauge&) = default;
};

struct PoolStatistics {
  BlockGauge allocated, active, inactive_split;
  BlockGauge
      reserved;  // count: segments of cudaMalloc; pages of expandable segments are not counted
  Gauge requested;
  friend constexpr bool operator==(const PoolStatistics&, const PoolStatistics&) = default;
};

struct AllocatorStatistics {
  PoolStatistics all, large, small;
  std::int64_t retries = 0;  // num_alloc_retries: asked again after giving back all that is cached
  std::int64_t out_of_memory = 0;  // num_ooms
  std::int64_t device_allocations = 0,
               device_frees = 0;  // cudaMalloc and cudaFree, or mapping and unmapping
  friend constexpr bool operator==(const AllocatorStatistics&,
                                   const AllocatorStatistics&) = default;
};

}  // namespace steelyard
