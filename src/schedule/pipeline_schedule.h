// The names of the orders. What each of them is stands in schedule/orders.h.
#pragma once

#include <cstdint>

namespace steelyard {

// In the order of the names of the key parallel.schedule.
enum class PipelineSchedule : std::uint8_t {
  kGPipe,
  kOneForwardOneBackward,
  kInterleaved,
  kZeroBubbleH1,
  kZeroBubbleH2,
  kZeroBubbleV,
  kDualPipe,
  kDualPipeV,
  kLoopedBreadthFirst,
  kVHalf
};
constexpr int kPipelineSchedules = 10;

}  // namespace steelyard
