// Zero bubble over a V (Qi et al. 2024, section 5; torch's ScheduleZBVZeroBubble): chunk 0 goes down the ranks, chunk 1 comes
// back up, so that the last part of the model stands on the first rank.
#include <array>

#include "schedule/orders/orders.h"

namespace steelyard {

namespace {

// Steps beyond the micro-batches that there are fall away: the order is that of 2p - 1 at least.
class Counted {
 public:
  explicit Counted(std::int64_t micro_batches) : micro_batches_(micro_batches) {}
  void put(const char* label, const std::vector<PipelineStep>& steps, std::int64_t times) {
    if (times <= 0) return;
    bool room = true;
    for (const PipelineStep& step : steps) room = room && count(step) + times <= micro_batches_;
    if (room) {
      for (const PipelineStep& step : steps) count(step) += times;
      order.add(label, steps, times);
      return;
    }
    for (std::int64_t i = 0; i < times; ++i) {
      std::vector<PipelineStep> left;
      for (const PipelineStep& step : steps)
        if (++count(step) <= micro_batches_) left.push_back(step);
      order.add(label, left);
    }
  }
  RankOrder order;

 private:
  std::int64_t& count(const PipelineStep& step) {
    return counts_[static_cast<std::size_t>(step.kind) * 2 + static_cast<std::size_t>(step.chunk)];
  }
  std::int64_t micro_batches_;
  std::array<std::int64_t, 8> counts_{};
};

}  // namespace

RankOrder zero_bubble_v_order(const PipelineShape& shape, std::int64_t rank) {
  const std::int64_t p = shape.ranks;
  const std::int64_t all = std::max(shape.micro_batches, 2 * p - 1);
  const PipelineStep f0 = forward_of(0), f1 = forward_of(1);
  const PipelineStep i0 = input_backward_of(0), i1 = input_backward_of(1);
  const PipelineStep w0 = weight_backward_of(0), w1 = weight_backward_of(1);
  Counted counted(shape.micro_batches);
  counted.put("warm-up", {f0}, 2 * (p - rank) - 1);
  counted.put("warm-up", {f1, f0}, rank);
  counted.put("warm-up", {f1, i1, w1}, p - rank);
  // Chunk 0 is 2p - 1 - rank ahead by now, chunk 1 p.
  counted.put("micro-batch", {f0, i0, w0, f1, i1, w1}, all - (2 * p - 1 - rank));
  counted.put("drain", {i0, w0, f1, i1, w1}, p - 1 - rank);
  counted.put("drain", {i0, i1}, rank);
  counted.put("drain", {i0, w0}, p - rank);
  counted.put("weights", {w1}, rank);
  counted.put("weights", {w0}, rank);
  return counted.order;
}

}  // namespace steelyard
