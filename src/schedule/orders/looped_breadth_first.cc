// Breadth-first pipeline parallelism (Lamy-Poirier 2022, arXiv:2211.05953): chunks in a loop; a chunk runs all micro-batches
// before the next one does. torch's ScheduleLoopedBFS goes backward from the last micro-batch on.
#include "schedule/orders/orders.h"

namespace steelyard {

RankOrder looped_breadth_first_order(const PipelineShape& shape, std::int64_t) {
  RankOrder order;
  const int chunks = static_cast<int>(shape.chunks);
  for (int chunk = 0; chunk < chunks; ++chunk)
    order.add("warm-up", {forward_of(chunk)}, shape.micro_batches);
  for (int chunk = chunks - 1; chunk >= 0; --chunk)
    order.add("drain", {backward_of(chunk)}, shape.micro_batches);
  return order;
}

}  // namespace steelyard
