// 1F1B, PipeDream-Flush (Narayanan et al. 2021, arXiv:2104.04473): a rank runs as many forwards ahead as ranks follow it.
#include "schedule/orders/depth_first.h"
#include "schedule/orders/orders.h"

namespace steelyard {

RankOrder one_forward_one_backward_order(const PipelineShape& shape, std::int64_t rank) {
  return depth_first(shape, shape.ranks - 1 - rank, kWholeBackward);
}

}  // namespace steelyard
