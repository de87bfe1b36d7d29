// The orders, which schedule/orders.def lists, and whose code runs which.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace steelyard {

#define ORDER(schedule, ...) schedule,
enum class PipelineSchedule : std::uint8_t {
#include "schedule/orders.def"
};
#undef ORDER
#define ORDER(schedule, ...) PipelineSchedule::schedule,
constexpr std::array kAllPipelineSchedules = {
#include "schedule/orders.def"
};
#undef ORDER
constexpr int kPipelineSchedules = static_cast<int>(kAllPipelineSchedules.size());
// The same, as a key's names are written: "gpipe|1f1b|...|".
constexpr std::string_view kPipelineOrderNames =
#define ORDER(schedule, name, ...) name "|"
#include "schedule/orders.def"
#undef ORDER
    "";

enum class OrderCode : std::uint8_t {
  kTorch = 1,  // torch/distributed/pipelining/schedules.py, get_schedule_class
  kMegatron = 2,
  kNanotron = 4,
  kDeepSpeed = 8,
  kScaling = 16,
  kForkOfMegatron =
      32,  // sail-sg/zero-bubble-pipeline-parallelism; DualPipe's modules are plain ones
  kForkOfDeepSpeed = 64
};
constexpr OrderCode operator|(OrderCode a, OrderCode b) {
  return static_cast<OrderCode>(static_cast<unsigned>(a) | static_cast<unsigned>(b));
}
constexpr bool includes(OrderCode codes, OrderCode one) {
  return (static_cast<unsigned>(codes) & static_cast<unsigned>(one)) != 0;
}

// A bit for each order.
constexpr std::uint16_t bit_of(PipelineSchedule schedule) {
  return static_cast<std::uint16_t>(1U << static_cast<unsigned>(schedule));
}
constexpr std::uint16_t orders_run_by(OrderCode code) {
  using enum OrderCode;
  unsigned orders = 0;
#define ORDER(schedule, name, rank_order, fault, placement, fewest, most, splits, from_last, \
              run_by, ...)                                                                   \
  if (includes(run_by, code)) orders |= bit_of(PipelineSchedule::schedule);
#include "schedule/orders.def"
#undef ORDER
  return static_cast<std::uint16_t>(orders);
}

// Where the vocabulary's layers stand: the lookup of tokens, and the output layer with its loss. In the order of the names of
// the key parallel.vocabulary.
enum class VocabularyLayers : std::uint8_t {
  kAtTheEnds,     // of the model: on the first and on the last stage
  kTwoExchanges,  // divided over all ranks, whose output layer waits for two exchanges (Vocab-1)
  kOneExchange,   // or for one (Vocab-2)
  kInterlaced     // or runs on all ranks at once
};

}  // namespace steelyard
