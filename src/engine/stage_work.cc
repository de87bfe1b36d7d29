// The kernels of a stage, by its parts.
#include "engine/stage_program.h"

namespace steelyard {

template <class N>
StageWork StagePrograms<N>::work(std::int64_t index) {
  // Most micro-batches of a step add to gradients that are there.
  const GradientPolicy policy = engine_->gradient_policy(job_.training.gradient_accumulation == 1);
  const std::vector<std::int64_t> parts = parts_on(index);
  StageWork result;
  const auto add = [&](const char* label, int unit, Tapes& tapes, std::int64_t times) {
    const Graph<N>& graph = tapes.composer->graph;
    result.parts.push_back(
        {label, unit, times, graph.forward_kernels(), graph.backward_kernels(policy)});
  };
  const Stage<N> stage = stage_with(index, parts);
  if (stage.embedding) add("embedding", 0, embedding_, 1);
  for (std::size_t variant = 0; variant < layers_.size(); ++variant) {
    std::int64_t times = 0;
    for (const std::int64_t part : parts)
      for (const Group& group : groups_of(part))
        for (const Run& run : group.runs)
          if (static_cast<std::size_t>(run.variant) == variant) times += run.count * group.times;
    if (times > 0) add("layer", static_cast<int>(variant / 2) + 1, layers_[variant], times);
  }
  if (stage.head) add("head", static_cast<int>(job_.model->kinds.size()) + 1, head_, 1);
  return result;
}

template StageWork StagePrograms<Checked>::work(std::int64_t);
template StageWork StagePrograms<Traced>::work(std::int64_t);

}  // namespace steelyard
