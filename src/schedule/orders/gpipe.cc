// GPipe (Huang et al. 2019, arXiv:1811.06965): all forwards, then all backwards. What torch and nanotron ("afab") run goes
// backward from the first micro-batch on.
#include "schedule/orders/orders.h"

namespace steelyard {

RankOrder gpipe_order(const PipelineShape& shape, std::int64_t) {
  RankOrder order;
  order.add("warm-up", {forward_of(0)}, shape.micro_batches);
  order.add("drain", {backward_of(0)}, shape.micro_batches);
  return order;
}

}  // namespace steelyard
