#include "schedule/orders/depth_first.h"

namespace steelyard {

RankOrder depth_first(const PipelineShape& shape, std::int64_t warm_up, std::int64_t delay) {
  const std::int64_t all = shape.micro_batches * shape.chunks;
  const std::int64_t first = std::min(warm_up, all);
  const std::int64_t period = shape.chunks == 1 ? 1 : shape.group * shape.chunks;
  const auto forward_chunk = [&](std::int64_t step) {
    return static_cast<int>(step / shape.group % shape.chunks);
  };
  const auto backward_chunk = [&](std::int64_t step) {
    return static_cast<int>(shape.chunks - 1 - step / shape.group % shape.chunks);
  };
  const bool whole = delay == kWholeBackward;
  // The backward step `step`, and the weights of an earlier one where there is one.
  const auto put_backward = [&](std::vector<PipelineStep>& steps, std::int64_t step) {
    steps.push_back(whole ? backward_of(backward_chunk(step))
                          : input_backward_of(backward_chunk(step)));
    if (!whole && step >= delay) steps.push_back(weight_backward_of(backward_chunk(step - delay)));
  };
  const std::int64_t pairs = all - first;
  const std::int64_t unpaid = whole ? 0 : std::min(delay, pairs);  // pairs before the first weights
  RankOrder order;
  order.run("warm-up", first, period,
            [&](std::int64_t i) { return std::vector{forward_of(forward_chunk(i))}; });
  const auto pair_from = [&](std::int64_t offset) {
    return [&, offset](std::int64_t i) {
      std::vector<PipelineStep> steps = {forward_of(forward_chunk(first + offset + i))};
      put_backward(steps, offset + i);
      return steps;
    };
  };
  order.run("micro-batch", unpaid, period, pair_from(0));
  order.run("micro-batch", pairs - unpaid, period, pair_from(unpaid));
  const auto drain_from = [&](std::int64_t offset) {
    return [&, offset](std::int64_t i) {
      std::vector<PipelineStep> steps;
      put_backward(steps, offset + i);
      return steps;
    };
  };
  const std::int64_t still_unpaid = whole ? 0 : std::clamp<std::int64_t>(delay - pairs, 0, first);
  order.run("drain", still_unpaid, period, drain_from(pairs));
  order.run("drain", first - still_unpaid, period, drain_from(pairs + still_unpaid));
  if (whole) return order;
  const std::int64_t paid = std::max<std::int64_t>(all - delay, 0);
  order.run("weights", all - paid, period, [&](std::int64_t i) {
    return std::vector{weight_backward_of(backward_chunk(paid + i))};
  });
  return order;
}

}  // namespace steelyard
