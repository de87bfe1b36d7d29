// The orders that there are: a row each, in orders.def.
//
//   const PipelineOrder& order = order_of(PipelineSchedule::kInterleaved);
//   order.fault({.ranks = 4, .chunks = 1, ...})     "interleaving needs two chunks or more"
//   order.rank_order(shape, rank)                   warm-up ..., micro-batch ..., drain ...
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "schedule/order.h"
#include "schedule/pipeline_schedule.h"

namespace steelyard {

struct PipelineOrder {
  PipelineSchedule schedule{};
  std::string_view name;       // as in a run file
  std::string_view meaning;    // one line
  std::string_view in_flight;  // on rank r of p, with m micro-batches and v chunks
  std::string_view source;
  Placement placement = Placement::kLoop;
  // How many chunks a rank may have; most 0: any number.
  std::int64_t fewest_chunks = 1, most_chunks = 1;
  bool splits_backward = false;
  bool backward_from_last = false;  // the last micro-batch goes backward first
  RankOrder (*rank_order)(const PipelineShape& shape, std::int64_t rank) = nullptr;
  // Why these micro-batches do not fit these ranks; empty: they do. Chunks are checked apart.
  std::string (*fault)(const PipelineShape& shape) = nullptr;
};

const std::array<PipelineOrder, kPipelineSchedules>& pipeline_orders();
const PipelineOrder& order_of(PipelineSchedule schedule);

}  // namespace steelyard
