// The kernels of a pipeline: each distinct stretch of the model once, and how often it stands in each part.
#include "engine/stage_program.h"

namespace steelyard {

template <class N>
void StagePrograms<N>::note_launches(NodeId tape, const Tapes& of, bool forward, bool first) {
  if (book_.detail() == SlotDetail::kSums) return;
  const Graph<N>& graph = of.composer->graph;
  book_.launch(tape, forward ? graph.forward_launches()
                             : graph.backward_launches(engine_->gradient_policy(first)));
}

template <class N>
PipelineWork StagePrograms<N>::work(const Recompute& recompute) {
  // Most micro-batches of a step add to gradients that are there.
  const GradientPolicy policy = engine_->gradient_policy(job_.training.gradient_accumulation == 1);
  PipelineWork result;
  const auto add = [&](const char* label, int unit, Tapes& tapes, bool unread = false) {
    const Graph<N>& graph = tapes.composer->graph;
    result.stretches.push_back({label, unit, graph.forward_kernels(),
                                unread ? Kernels{} : graph.backward_kernels(policy)});
    return result.stretches.size() - 1;
  };
  const bool divided = divides_vocabulary();
  const std::size_t embedding = add("embedding", 0, embedding_);
  const std::size_t bridge = stacks_ ? add(bridge_label(), 0, stacks_->bridge) : embedding;
  std::vector<std::optional<std::size_t>> layers(layers_.size());
  const std::int64_t parts = parts_in_line(order_->placement, shape_);
  for (std::int64_t part = 0; part < parts; ++part) {
    std::vector<PipelineWork::Count>& counts = result.parts.emplace_back();
    if (part == 0) counts.push_back({embedding, 1});
    if (stacks_) counts.push_back({bridge, 1});
    for (const Group& group : groups_of(part))
      for (const Run& run : group.runs) {
        int variant = run.variant;
        if (recompute.mode == RecomputeMode::kFull) variant |= 1;
        if (recompute.mode == RecomputeMode::kNone) variant &= ~1;
        std::optional<std::size_t>& stretch = layers[static_cast<std::size_t>(variant)];
        if (!stretch)
          stretch = add("layer", variant / 2 + 1, tapes(variant),
                        job_.model->kinds[static_cast<std::size_t>(variant / 2)].unread);
        counts.push_back({*stretch, run.count * group.times});
      }
    if (part + 1 < parts) continue;
    counts.push_back({add("head", static_cast<int>(job_.model->kinds.size()) + 1, head_), 1});
  }
  // KTO's mismatched pairs go through both models once more (trl trainer/kto_trainer.py, _compute_kl_logps); before what vLLM
  // has generated is learnt from, the policy says how likely it is (grpo_trainer.py, _generate_and_score_completions).
  const bool mismatched = job_.training.method == Method::kKto && !scores();
  const bool scores_itself = mismatched || job_.generation.by == Generator::kVllm ||
                             job_.generation.by == Generator::kElsewhere;
  const auto add_forwards = [&](const PipelineWork& of, std::int64_t times) {
    const std::vector<PipelineWork::Count> counts = of.parts.front();
    for (const PipelineWork::Count& count : counts) {
      const PipelineWork::Stretch stretch = of.stretches[count.stretch];
      result.stretches.push_back({stretch.label, stretch.unit, stretch.forward, Kernels{}});
      result.parts.front().push_back({result.stretches.size() - 1, count.times * times});
    }
  };
  if (scores_itself && !scores()) add_forwards(PipelineWork(result), 1);
  if (scorer_) add_forwards(scorer_->work(Recompute{}), mismatched ? 2 : 1);
  if (divided) {
    const int rows = static_cast<int>(job_.model->kinds.size()) + 2;
    Vocabulary& vocabulary = *graphs_->vocabulary;
    for (const auto& [label, tapes] :
         {std::pair{"lookup", &vocabulary.lookup}, std::pair{"output layer", &vocabulary.output}})
      result.parts.push_back({{add(label, rows, *tapes), 1}});
  }
  return result;
}

template void StagePrograms<Checked>::note_launches(NodeId, const Tapes&, bool, bool);
template void StagePrograms<Traced>::note_launches(NodeId, const Tapes&, bool, bool);
template PipelineWork StagePrograms<Checked>::work(const Recompute&);
template PipelineWork StagePrograms<Traced>::work(const Recompute&);

}  // namespace steelyard
