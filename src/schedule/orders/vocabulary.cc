// 1F1B with vocabulary parallelism (Yeung et al. 2024, arXiv:2411.05288; sail-sg/VocabularyParallelism,
// megatron/core/pipeline_parallel/vocab_parallel_schedule.py). Between a micro-batch's last forward and its first backward stand
// its output passes on all ranks, and one exchange of them all, or two: each keeps one micro-batch more in flight.
//
//   rank 0 of 4, two exchanges    E E F E F E F E F S E F T S F T S T S    B T S E e F in turn    B T S e ..
#include "schedule/orders/orders.h"
#include "schedule/orders/vocabulary_steps.h"

namespace steelyard {

namespace {

// How many output passes a rank runs before its first backward, and whether later ones stand behind its backwards or behind
// its forwards: the authors place them for backwards that take two forwards.
struct OutputPasses {
  std::vector<std::int64_t> before;
  std::vector<bool> behind_backward;
};

OutputPasses output_passes(std::int64_t ranks) {
  constexpr std::int64_t kForward = 1, kBackward = 2;
  const auto count = static_cast<std::size_t>(ranks);
  OutputPasses passes{{0}, {true}};
  // From the last rank to the first: when the pass runs, against the last rank's.
  std::int64_t offset = 0;
  while (passes.behind_backward.size() < count) {
    const bool fits = offset - kForward >= -kBackward;
    offset += fits ? -kForward : kBackward - kForward;
    if (!fits) passes.behind_backward.push_back(false);
    passes.behind_backward.push_back(true);
  }
  passes.behind_backward.resize(count);
  for (std::size_t i = 1; i < count; ++i) {
    const bool as_before = !passes.behind_backward[i - 1] && passes.behind_backward[i];
    passes.before.push_back(passes.before.back() + (as_before ? 0 : 1));
  }
  std::reverse(passes.before.begin(), passes.before.end());
  std::reverse(passes.behind_backward.begin(), passes.behind_backward.end());
  return passes;
}

}  // namespace

RankOrder vocabulary_order(const PipelineShape& shape, std::int64_t rank) {
  const std::int64_t m = shape.micro_batches;
  const std::int64_t more = shape.vocabulary == VocabularyLayers::kTwoExchanges ? 1 : 0;
  const OutputPasses passes = output_passes(shape.ranks);
  const std::int64_t before = passes.before[static_cast<std::size_t>(rank)];
  const std::int64_t most_before = passes.before.front();
  const std::int64_t ahead = std::min(shape.ranks - rank, m);
  VocabularySteps steps(m);
  steps.lookup(std::min(shape.ranks, m) - ahead + 1);
  for (std::int64_t i = 0; i < ahead; ++i) {
    steps.lookup();
    steps.forward();
  }
  steps.output_turn();
  if (more == 1) steps.lookup();
  steps.forward();
  if (more == 1) {
    steps.output_turn();
    steps.forward();
  }
  // With two exchanges the last turn has a backward alone; with one it comes when all else is done.
  const auto turns_left = [&] { return m + more - steps.turns(); };
  for (std::int64_t i = 0; i < before && turns_left() > 0; ++i) {
    steps.output_turn();
    if (i + 1 >= most_before) steps.lookup();
  }
  steps.end("warm-up");
  // Lookups follow the first rank, which needs what they give, or has what they go backward from.
  const std::int64_t first_lookup = most_before + more, first_back = most_before + more + 2;
  const std::int64_t rounds = std::max<std::int64_t>(m - ahead - 1 - more, 0);
  const std::int64_t turns = steps.turns();
  const std::int64_t from = std::max<std::int64_t>(first_lookup - turns, 0);
  steps.run("micro-batch", rounds, {from, first_back - turns, from + steps.lookups_left()},
            [&](std::int64_t i) {
              const bool behind_backward = passes.behind_backward[static_cast<std::size_t>(rank)];
              steps.backward();
              if (!behind_backward) steps.forward();
              steps.output_turn();
              if (turns + i >= first_lookup) steps.lookup();
              if (turns + i >= first_back) steps.lookup_backward();
              if (behind_backward) steps.forward();
            });
  for (std::int64_t i = rounds; i < m; ++i) {
    const bool back = steps.turns() >= first_back;
    steps.backward();
    if (turns_left() > 0) steps.output_turn();
    if (back) steps.lookup_backward();
  }
  while (steps.lookup_backwards_left() > 0) steps.lookup_backward();
  steps.output_backward();
  steps.end("drain");
  return steps.take();
}

}  // namespace steelyard
