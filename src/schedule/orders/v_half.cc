// V-Half (Qi et al. 2024, Pipeline Parallelism with Controllable Memory, arXiv:2405.15362; sail-sg/
// zero-bubble-pipeline-parallelism, scheduler/zbv_greedy.py): over a V of two chunks a rank, with half of what 1F1B keeps.
// Every micro-batch runs one pattern, six units behind the one before. On rank r of p, with e = 3 where p is even, else 0:
//
//   F0 at 2r      F1 at 3p - r - 2      I1 at 3p + e + 2r - 1      I0 at 6p + e - r - 2
//
// These have four remainders by six; the two that are left take the weights' gradients, each as soon as its input's is there.
// The authors squeeze both ends of what comes of it where that costs no memory, which is left out here.
//
// With the vocabulary divided over the ranks (the branch v-half-vocab, scheduler/passes.py) each of its exchanges delays the
// backwards by one more period. All ranks run the output layer two units after the last F1, and its backward a period later; the
// lookup runs p/2 + 1 micro-batches ahead, and goes backward two micro-batches behind that.
#include <algorithm>
#include <limits>

#include "schedule/orders/orders.h"

namespace steelyard {

namespace {

constexpr std::int64_t kPeriod = 6;

struct Place {
  PipelineStep step;
  std::int64_t unit = 0;           // of the first micro-batch
  std::int64_t micro_batches = 0;  // that run here
};

// Micro-batches whose tokens are looked up before the first is through.
std::int64_t lookups_ahead(const PipelineShape& shape) { return shape.ranks / 2 + 1; }

std::vector<Place> pattern_of(const PipelineShape& shape, std::int64_t r) {
  const std::int64_t p = shape.ranks, m = shape.micro_batches;
  const std::int64_t exchanges = shape.vocabulary == VocabularyLayers::kTwoExchanges  ? 2
                                 : shape.vocabulary == VocabularyLayers::kOneExchange ? 1
                                                                                      : 0;
  const std::int64_t e = (p % 2 == 0 ? 3 : 0) + exchanges * kPeriod;
  std::vector<Place> pattern = {{forward_of(0), 2 * r, m},
                                {forward_of(1), 3 * p - r - 2, m},
                                {input_backward_of(1), 3 * p + e + 2 * r - 1, m},
                                {input_backward_of(0), 6 * p + e - r - 2, m}};
  const auto taken = [&](std::int64_t unit) {
    return std::any_of(pattern.begin(), pattern.end(),
                       [&](const Place& place) { return place.unit % kPeriod == unit % kPeriod; });
  };
  for (const std::size_t input : {2U, 3U}) {
    std::int64_t unit = pattern[input].unit;
    while (taken(unit)) ++unit;
    pattern.push_back({weight_backward_of(pattern[input].step.chunk), unit, m});
  }
  if (exchanges == 0) return pattern;
  // In the order of the steps of one unit, the layers' last.
  const std::int64_t ahead = lookups_ahead(shape), behind = ahead + 2, output = 3 * p;
  pattern.insert(pattern.begin(),
                 {{{StepKind::kLookup, 0}, output, m - ahead},
                  {{StepKind::kOutputBackward, 0}, output + kPeriod, m},
                  {{StepKind::kOutput, 0}, output, m},
                  {{StepKind::kLookupBackward, 0}, output + behind * kPeriod, m - behind}});
  std::erase_if(pattern, [](const Place& place) { return place.micro_batches <= 0; });
  return pattern;
}

}  // namespace

RankOrder v_half_order(const PipelineShape& shape, std::int64_t rank) {
  const std::vector<Place> pattern = pattern_of(shape, rank);
  const bool divided = shape.vocabulary != VocabularyLayers::kAtTheEnds;
  const auto steps_between = [&](std::int64_t from, std::int64_t until) {
    std::vector<PipelineStep> steps;
    for (std::int64_t unit = from; unit < until; ++unit)
      for (const Place& place : pattern) {
        const std::int64_t behind = unit - place.unit;
        if (behind >= 0 && behind % kPeriod == 0 && behind / kPeriod < place.micro_batches)
          steps.push_back(place.step);
      }
    return steps;
  };
  const auto repeat = [&](PipelineStep step, std::int64_t times) {
    return std::vector<PipelineStep>(static_cast<std::size_t>(std::min(times, shape.micro_batches)),
                                     step);
  };
  // All run from the last one's first unit until the first one has had all its micro-batches.
  std::int64_t last = 0, full = std::numeric_limits<std::int64_t>::max(), end = 0;
  for (const Place& place : pattern) {
    last = std::max(last, place.unit);
    full = std::min(full, place.unit + kPeriod * place.micro_batches);
    end = std::max(end, place.unit + kPeriod * place.micro_batches);
  }
  const std::int64_t rounds = std::max<std::int64_t>(full - last, 0) / kPeriod;
  RankOrder order;
  const std::int64_t ahead = lookups_ahead(shape);
  if (divided) order.add("warm-up", repeat({StepKind::kLookup, 0}, ahead));
  order.add("warm-up", steps_between(0, last));
  order.add("micro-batch", steps_between(last, last + kPeriod), rounds);
  order.add("drain", steps_between(last + kPeriod * rounds, end));
  if (divided) order.add("drain", repeat({StepKind::kLookupBackward, 0}, ahead + 2));
  return order;
}

}  // namespace steelyard
