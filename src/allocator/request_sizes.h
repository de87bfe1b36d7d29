// Which size a request becomes, and how much is asked of the driver for it.
//
//   requested            rounded               pool    segment
//   1 B ... 1 MiB        to 512 B              small   2 MiB
//   1 MiB ... 10 MiB     to 512 B              large   20 MiB
//   10 MiB ...           to 512 B              large   the next 2 MiB
//
// roundup_power2_divisions rounds further up: 1,200 B in 4 divisions become 1,280 B (1,024 + 256).
// Source: pytorch c10/cuda/CUDACachingAllocator.cpp, round_size, roundup_power2_next_division, get_allocation_size.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "machine/allocator_settings.h"
#include "quantity/quantity.h"

namespace steelyard {

constexpr std::int64_t kSmallestBlock = kAllocationGranularity;
constexpr std::int64_t kLargestSmall = std::int64_t{1} << 20;
constexpr std::int64_t kSmallSegment = std::int64_t{2} << 20;
constexpr std::int64_t kSmallestOwnSegment = std::int64_t{10} << 20;
constexpr std::int64_t kLargeSegmentRounding = std::int64_t{2} << 20;
// PyTorch refuses an exbibyte before it looks for one (CUDACachingAllocator.cpp, allocate).
constexpr std::int64_t kRefusedRequest = std::int64_t{1} << 60;

constexpr std::int64_t rounded_up(std::int64_t size, std::int64_t power_of_two) {
  return (size + power_of_two - 1) & -power_of_two;
}

// `requested` is positive and below kRefusedRequest, as for all functions here.
constexpr std::int64_t divisions_for(std::int64_t requested, const AllocatorSettings& settings) {
  const int above_mebibyte =
      static_cast<int>(std::bit_width(static_cast<std::uint64_t>(requested))) - 1 - 20;
  return settings.roundup_divisions[static_cast<std::size_t>(
      std::clamp(above_mebibyte, 0, kRoundupIntervals - 1))];
}

constexpr std::int64_t rounded_request(std::int64_t requested, const AllocatorSettings& settings) {
  const std::int64_t divisions = divisions_for(requested, settings);
  const std::int64_t plain = rounded_up(requested, kSmallestBlock);
  if (divisions <= 1 || plain / kSmallestBlock <= divisions) return plain;
  const auto floor =
      static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(requested)));
  return rounded_up(requested, floor / divisions);  // both are powers of two
}

constexpr bool is_small(std::int64_t rounded) { return rounded <= kLargestSmall; }

constexpr std::int64_t segment_for(std::int64_t rounded, const AllocatorSettings& settings) {
  if (is_small(rounded)) return kSmallSegment;
  if (rounded < kSmallestOwnSegment) return settings.large_segment.value().value();
  return rounded_up(rounded, kLargeSegmentRounding);
}

}  // namespace steelyard
