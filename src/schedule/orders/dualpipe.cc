// DualPipe (DeepSeek-V3, arXiv:2412.19437; deepseek-ai/DualPipe, dualpipe/dualpipe.py) and DualPipeV (dualpipev.py, and
// torch's ScheduleDualPipeV): a forward of one chunk runs beside a backward of the other. DualPipe sends micro-batches in
// from both ends, so that a rank holds two parts of two copies of the model; DualPipeV folds one copy into a V.
#include "schedule/orders/orders.h"

namespace steelyard {

namespace {

// The eight steps of both. `ranks` of one direction, `rank` from its nearer end, `last`: the innermost one.
RankOrder eight_steps(std::int64_t ranks, std::int64_t rank, std::int64_t micro_batches) {
  const PipelineStep f0 = forward_of(0), f1 = forward_of(1);
  const PipelineStep b0 = backward_of(0), b1 = backward_of(1);
  const PipelineStep i0 = input_backward_of(0), i1 = input_backward_of(1);
  const PipelineStep w0 = weight_backward_of(0), w1 = weight_backward_of(1);
  const std::int64_t after = ranks - rank - 1;
  RankOrder order;
  order.add("warm-up", {f0}, 2 * after);
  order.add("warm-up", {f0, f1}, rank + 1);
  order.add("warm-up", {i1, w1, f1}, after);
  order.add("micro-batch", {f0, b1, f1, b0}, micro_batches - 2 * ranks + rank + 1);
  order.add("drain", {b1, f1, b0}, after);
  // Halfway through the drain weights begin to wait; they are made up for in the order in which they began to.
  const std::int64_t half = (rank + 1) / 2;
  const bool odd = rank % 2 == 1;
  order.add("drain", {b1, b0}, half);
  std::int64_t waiting = rank + 1 - half;  // rounds that leave weights behind
  std::vector<PipelineStep> queue;
  for (std::int64_t round = 0; round < waiting; ++round) {
    const bool whole = round == 0 && !odd;
    order.add("drain", {whole ? b1 : i1, i0});
    if (!whole) queue.push_back(w1);
    queue.push_back(w0);
  }
  std::size_t next = 0;
  for (std::int64_t i = 0; i < after; ++i) {
    order.add("drain", {queue[next++], i0});
    queue.push_back(w0);
  }
  while (next < queue.size()) order.add("weights", {queue[next++]});
  return order;
}

}  // namespace

RankOrder dualpipe_order(const PipelineShape& shape, std::int64_t rank) {
  return eight_steps(shape.ranks / 2, std::min(rank, shape.ranks - 1 - rank),
                     shape.micro_batches / 2);
}
std::string dualpipe_fault(const PipelineShape& shape) {
  if (shape.ranks % 2 != 0)
    return std::to_string(shape.ranks) + " ranks: two directions need an even number";
  if (shape.micro_batches % 2 != 0)
    return std::to_string(shape.micro_batches) +
           " micro-batches: two directions need an even number";
  if (shape.micro_batches >= 2 * shape.ranks) return "";
  return std::to_string(shape.micro_batches) + " micro-batches are fewer than twice " +
         std::to_string(shape.ranks) + " ranks";
}

RankOrder dualpipe_v_order(const PipelineShape& shape, std::int64_t rank) {
  return eight_steps(shape.ranks, rank, shape.micro_batches);
}
std::string dualpipe_v_fault(const PipelineShape& shape) {
  if (shape.micro_batches >= 2 * shape.ranks) return "";
  return std::to_string(shape.micro_batches) + " micro-batches are fewer than twice " +
         std::to_string(shape.ranks) + " ranks";
}

}  // namespace steelyard
