// One function for each file of this folder. To add an order, write its file, name it here, and give it a row in
// schedule/orders.cc.
#pragma once

#include <string>

#include "schedule/order.h"

namespace steelyard {

RankOrder gpipe_order(const PipelineShape& shape, std::int64_t rank);
RankOrder one_forward_one_backward_order(const PipelineShape& shape, std::int64_t rank);
// 1F1B with the vocabulary divided over the ranks, by the shape's VocabularyLayers.
RankOrder vocabulary_order(const PipelineShape& shape, std::int64_t rank);
RankOrder interlaced_order(const PipelineShape& shape, std::int64_t rank);
RankOrder interleaved_order(const PipelineShape& shape, std::int64_t rank);
RankOrder looped_breadth_first_order(const PipelineShape& shape, std::int64_t rank);
RankOrder zero_bubble_h1_order(const PipelineShape& shape, std::int64_t rank);
RankOrder zero_bubble_h2_order(const PipelineShape& shape, std::int64_t rank);
RankOrder zero_bubble_v_order(const PipelineShape& shape, std::int64_t rank);
RankOrder v_half_order(const PipelineShape& shape, std::int64_t rank);
RankOrder dualpipe_order(const PipelineShape& shape, std::int64_t rank);
RankOrder dualpipe_v_order(const PipelineShape& shape, std::int64_t rank);

std::string interlaced_fault(const PipelineShape& shape);
std::string whole_groups_fault(const PipelineShape& shape);  // interleaved, zero bubble H1
std::string dualpipe_fault(const PipelineShape& shape);
std::string dualpipe_v_fault(const PipelineShape& shape);

}  // namespace steelyard
