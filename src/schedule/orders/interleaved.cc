// Interleaved 1F1B (Narayanan et al. 2021): several chunks of layers on each rank, in a loop. Megatron-LM
// core/pipeline_parallel/schedules.py and torch/distributed/pipelining/schedules.py, ScheduleInterleaved1F1B.
#include "schedule/orders/depth_first.h"
#include "schedule/orders/orders.h"

namespace steelyard {

RankOrder interleaved_order(const PipelineShape& shape, std::int64_t rank) {
  return depth_first(shape, (shape.chunks - 1) * shape.group + 2 * (shape.ranks - 1 - rank),
                     kWholeBackward);
}

std::string whole_groups_fault(const PipelineShape& shape) {
  if (shape.micro_batches % shape.group == 0 || shape.chunks == 1) return "";
  return std::to_string(shape.micro_batches) + " micro-batches are not a multiple of groups of " +
         std::to_string(shape.group);
}

}  // namespace steelyard
