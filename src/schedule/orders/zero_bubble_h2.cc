// Zero bubble, handcrafted 2 (Qi et al. 2024): twice the forwards ahead, so that nothing waits once the pipeline is full;
// 2p - 1 micro-batches in flight on every rank.
#include "schedule/orders/depth_first.h"
#include "schedule/orders/orders.h"

namespace steelyard {

RankOrder zero_bubble_h2_order(const PipelineShape& shape, std::int64_t rank) {
  return depth_first(shape, 2 * (shape.ranks - 1 - rank), 2 * rank);
}

}  // namespace steelyard
