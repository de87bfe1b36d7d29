// The interlaced pipeline (Lin et al. 2024, nnScaler, OSDI 24; sail-sg/VocabularyParallelism, megatron/core/pipeline_parallel/
// interlaced_schedule.py): all ranks run the output layer of one micro-batch together, forward and backward at once, and wait for
// its exchanges. Where 1F1B keeps p micro-batches in flight it keeps 3p/2.
#include "schedule/orders/orders.h"
#include "schedule/orders/vocabulary_steps.h"

namespace steelyard {

// Fewer micro-batches than the first rank runs ahead: ranks would wait for each other's output layers for ever.
std::string interlaced_fault(const PipelineShape& shape) {
  const std::int64_t fewest = shape.ranks * 3 / 2;
  if (shape.vocabulary != VocabularyLayers::kInterlaced || shape.micro_batches >= fewest) return "";
  return "interlaced needs " + std::to_string(fewest) + " micro-batches or more";
}

RankOrder interlaced_order(const PipelineShape& shape, std::int64_t rank) {
  const std::int64_t m = shape.micro_batches, p = shape.ranks;
  const std::int64_t ahead = std::min(p * 3 / 2 - rank, m), behind = std::min(p - rank, m);
  // Backwards before the first forward that follows one.
  const std::int64_t waiting = std::max<std::int64_t>(ahead - behind - (p - rank - 1) / 2, 0);
  const std::int64_t first_lookup = std::min(p, m) - 1;
  const std::int64_t first_back = std::min(p, m) + (p % 2 == 0 ? 1 : 0);
  const bool forward_first = rank % 2 == p % 2;
  VocabularySteps steps(m);
  std::int64_t outputs = 0;
  const auto output = [&](bool back) {
    steps.output();
    steps.output_backward();
    if (outputs >= first_lookup) steps.lookup();
    if (back && outputs >= first_back) steps.lookup_backward();
    ++outputs;
  };
  steps.lookup(std::min(p * 3 / 2, m) - ahead + 1);
  for (std::int64_t i = 0; i < ahead; ++i) {
    steps.lookup();
    steps.forward();
  }
  for (std::int64_t i = 0; i < behind; ++i) output(false);
  for (std::int64_t i = 0; i < waiting; ++i) {
    steps.backward();
    output(true);
  }
  steps.end("warm-up");
  const std::int64_t rounds = m - ahead, before = outputs;
  const std::int64_t from = std::max<std::int64_t>(first_lookup - before, 0);
  steps.run("micro-batch", rounds, {from, first_back - before, from + steps.lookups_left()},
            [&](std::int64_t i) {
              outputs = before + i;
              if (forward_first) steps.forward();
              steps.backward();
              if (!forward_first) steps.forward();
              output(true);
            });
  outputs = before + rounds;
  for (std::int64_t i = waiting + rounds; i < m; ++i) {
    steps.backward();
    steps.output();
    steps.output_backward();
    steps.lookup_backward();
  }
  while (steps.lookup_backwards_left() > 0) steps.lookup_backward();
  steps.end("drain");
  return steps.take();
}

}  // namespace steelyard
