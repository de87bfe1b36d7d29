// V-Half (Qi et al. 2024, Pipeline Parallelism with Controllable Memory, arXiv:2405.15362; sail-sg/
// zero-bubble-pipeline-parallelism, scheduler/zbv_greedy.py): over a V of two chunks a rank, with half of what 1F1B keeps.
// Every micro-batch runs one pattern, six units behind the one before. On rank r of p, with e = 3 where p is even, else 0:
//
//   F0 at 2r      F1 at 3p - r - 2      I1 at 3p + e + 2r - 1      I0 at 6p + e - r - 2
//
// These have four remainders by six; the two that are left take the weights' gradients, each as soon as its input's is there.
// The authors squeeze both ends of what comes of it where that costs no memory, which is left out here.
#include <algorithm>
#include <array>

#include "schedule/orders/orders.h"

namespace steelyard {

namespace {

constexpr std::int64_t kPeriod = 6;

struct Place {
  PipelineStep step;
  std::int64_t unit = 0;  // of the first micro-batch
};
using Pattern = std::array<Place, kPeriod>;

Pattern pattern_of(std::int64_t p, std::int64_t r) {
  const std::int64_t e = p % 2 == 0 ? 3 : 0;
  Pattern pattern = {{{forward_of(0), 2 * r},
                      {forward_of(1), 3 * p - r - 2},
                      {input_backward_of(1), 3 * p + e + 2 * r - 1},
                      {input_backward_of(0), 6 * p + e - r - 2},
                      {weight_backward_of(1), 0},
                      {weight_backward_of(0), 0}}};
  std::array<bool, kPeriod> taken{};
  const auto at = [&](std::int64_t unit) -> bool& {
    return taken[static_cast<std::size_t>(unit % kPeriod)];
  };
  for (std::size_t i = 0; i < 4; ++i) at(pattern[i].unit) = true;
  for (std::size_t i = 0; i < 2; ++i) {
    std::int64_t unit = pattern[2 + i].unit;
    while (at(unit)) ++unit;
    at(unit) = true;
    pattern[4 + i].unit = unit;
  }
  return pattern;
}

}  // namespace

RankOrder v_half_order(const PipelineShape& shape, std::int64_t rank) {
  const Pattern pattern = pattern_of(shape.ranks, rank);
  const auto by_unit = [](const Place& a, const Place& b) { return a.unit < b.unit; };
  const auto [first, last] = std::minmax_element(pattern.begin(), pattern.end(), by_unit);
  const auto steps_between = [&](std::int64_t from, std::int64_t until) {
    std::vector<PipelineStep> steps;
    for (std::int64_t unit = from; unit < until; ++unit)
      for (const Place& place : pattern) {
        const std::int64_t behind = unit - place.unit;
        if (behind >= 0 && behind % kPeriod == 0 && behind / kPeriod < shape.micro_batches)
          steps.push_back(place.step);
      }
    return steps;
  };
  // All six run from the last one's first unit until the first one has had all micro-batches.
  const std::int64_t full = first->unit + kPeriod * shape.micro_batches - last->unit;
  const std::int64_t rounds = std::max<std::int64_t>(full, 0) / kPeriod;
  const std::int64_t drain = last->unit + kPeriod * rounds;
  RankOrder order;
  order.add("warm-up", steps_between(0, last->unit));
  order.add("micro-batch", steps_between(last->unit, last->unit + kPeriod), rounds);
  order.add("drain", steps_between(drain, last->unit + kPeriod * shape.micro_batches));
  return order;
}

}  // namespace steelyard
