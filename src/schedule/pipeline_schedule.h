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

// Where the vocabulary's layers stand: the lookup of tokens, and the output layer with its loss. In the order of the names of
// the key parallel.vocabulary.
enum class VocabularyLayers : std::uint8_t {
  kAtTheEnds,     // of the model: on the first and on the last stage
  kTwoExchanges,  // divided over all ranks, whose output layer waits for two exchanges (Vocab-1)
  kOneExchange,   // or for one (Vocab-2)
  kInterlaced     // or runs on all ranks at once
};

}  // namespace steelyard
