#include "schedule/orders/depth_first.h"

namespace steelyard {

RankOrder depth_first(const PipelineShape& shape, std::int64_t warm_up, std::int64_t delay) {
  const std::int64_t all = shape.micro_batches * shape.chunks;
  const std::int64_t first = std::min(warm_up, all);
  const std::int64_t period = shape.chunks == 1 ? 1 : shape.group * shape.chunks;
  const bool whole = delay == kWholeBackward;
  // The chunk of each step, and how many from it on are of the same.
  const auto chunk_of = [&](std::int64_t step, StepRun& run) {
    if (shape.chunks == 1) return std::int64_t{0};
    run.times = std::min(run.times, shape.group - step % shape.group);
    return step / shape.group % shape.chunks;
  };
  const auto put_forward = [&](std::int64_t step, StepRun& run) {
    run.put(forward_of(static_cast<int>(chunk_of(step, run))));
  };
  const auto backward_chunk = [&](std::int64_t step, StepRun& run) {
    return static_cast<int>(shape.chunks - 1 - chunk_of(step, run));
  };
  // The backward step `step`, and the weights of an earlier one where there is one.
  const auto put_backward = [&](std::int64_t step, StepRun& run) {
    const int chunk = backward_chunk(step, run);
    run.put(whole ? backward_of(chunk) : input_backward_of(chunk));
    if (whole) return;
    if (step >= delay)
      run.put(weight_backward_of(backward_chunk(step - delay, run)));
    else
      run.times = std::min(run.times, delay - step);
  };
  const auto run_with = [&](auto put) {
    return [&all, put](std::int64_t unit) {
      StepRun run;
      run.times = all;
      put(unit, run);
      return run;
    };
  };
  const std::int64_t pairs = all - first;
  const std::int64_t unpaid = whole ? 0 : std::min(delay, pairs);  // pairs before the first weights
  RankOrder order;
  order.run("warm-up", first, period, run_with(put_forward));
  const auto pair_from = [&](std::int64_t offset) {
    return run_with([&, offset](std::int64_t unit, StepRun& run) {
      put_forward(first + offset + unit, run);
      put_backward(offset + unit, run);
    });
  };
  order.run("micro-batch", unpaid, period, pair_from(0));
  order.run("micro-batch", pairs - unpaid, period, pair_from(unpaid));
  const auto drain_from = [&](std::int64_t offset) {
    return run_with(
        [&, offset](std::int64_t unit, StepRun& run) { put_backward(offset + unit, run); });
  };
  const std::int64_t still_unpaid = whole ? 0 : std::clamp<std::int64_t>(delay - pairs, 0, first);
  order.run("drain", still_unpaid, period, drain_from(pairs));
  order.run("drain", first - still_unpaid, period, drain_from(pairs + still_unpaid));
  if (whole) return order;
  const std::int64_t paid = std::max<std::int64_t>(all - delay, 0);
  order.run("weights", all - paid, period, run_with([&](std::int64_t unit, StepRun& run) {
              run.put(weight_backward_of(backward_chunk(paid + unit, run)));
            }));
  return order;
}

}  // namespace steelyard
