// Zero bubble, handcrafted 1 (Qi et al. 2024, arXiv:2401.10241): gradients of weights wait `rank` steps, so that every rank
// has as much in flight as the first one has in 1F1B. Several chunks: torch's ScheduleInterleavedZeroBubble.
#include "schedule/orders/depth_first.h"
#include "schedule/orders/orders.h"

namespace steelyard {

RankOrder zero_bubble_h1_order(const PipelineShape& shape, std::int64_t rank) {
  return depth_first(shape, (shape.chunks - 1) * shape.group + shape.ranks - 1 - rank, rank);
}

}  // namespace steelyard
