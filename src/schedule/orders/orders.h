// One function for each row of schedule/orders.def, which a file of this folder holds.
#pragma once

#include <string>

#include "schedule/order.h"

namespace steelyard {

#define ORDER(schedule, name, rank_order, ...) \
  RankOrder rank_order(const PipelineShape& shape, std::int64_t rank);
#include "schedule/orders.def"
#undef ORDER
// 1F1B with the vocabulary divided over the ranks, by the shape's VocabularyLayers.
RankOrder vocabulary_order(const PipelineShape& shape, std::int64_t rank);
RankOrder interlaced_order(const PipelineShape& shape, std::int64_t rank);

std::string interlaced_fault(const PipelineShape& shape);
std::string whole_groups_fault(const PipelineShape& shape);  // interleaved, zero bubble H1
std::string dualpipe_fault(const PipelineShape& shape);
std::string dualpipe_v_fault(const PipelineShape& shape);

}  // namespace steelyard
