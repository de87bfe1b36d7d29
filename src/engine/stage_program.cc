#include "engine/stage_program.h"

#include <algorithm>

namespace steelyard {

template <class N>
StagePrograms<N>::StagePrograms(const Job& job, SlotDetail detail, std::shared_ptr<Graphs> graphs)
    : StagePrograms(job, std::make_unique<Workbook<N>>(detail), graphs) {}

template <class N>
StagePrograms<N>::StagePrograms(const Job& job, std::unique_ptr<Workbook<N>> own,
                                std::shared_ptr<Graphs> graphs)
    : StagePrograms(job, *own, std::move(graphs)) {
  own_book_ = std::move(own);
}

template <class N>
StagePrograms<N>::StagePrograms(const Job& job, Workbook<N>& book, std::shared_ptr<Graphs> graphs)
    : job_(job),
      book_(book),
      graphs_(std::move(graphs)),
      style_(graphs_->style),
      sizes_(graphs_->sizes),
      units_(graphs_->units),
      trained_units_(graphs_->trained_units),
      frozen_units_(graphs_->frozen_units),
      hidden_(graphs_->hidden),
      hidden_gradient_(graphs_->hidden_gradient),
      ids_(graphs_->ids),
      labels_(graphs_->labels),
      inputs_(graphs_->inputs),
      buffers_(graphs_->buffers),
      whole_ids_(graphs_->whole_ids),
      whole_positions_(graphs_->whole_positions),
      parts_of_positions_(graphs_->parts_of_positions),
      loss_(graphs_->loss),
      loss_gradient_(graphs_->loss_gradient),
      loop_(graphs_->loop),
      received_(graphs_->received),
      received_gradient_(graphs_->received_gradient),
      gradient_of_received_(graphs_->gradient_of_received),
      layers_(graphs_->layers),
      edges_(graphs_->edges),
      embedding_(graphs_->embedding),
      head_(graphs_->head),
      stacks_(graphs_->stacks),
      gradients_of_kind_(graphs_->gradients_of_kind),
      gradient_slots_of_kind_(graphs_->gradient_slots_of_kind),
      torch_pipeline_(runs_on_torch_pipelining(job)),
      keeps_outputs_(job.engine == Engine::kScaling) {
  cut_stages();
}

template <class N>
void StagePrograms<N>::cut_stages() {
  const std::vector<Layers>& of_parts = job_.parallel.stage_layers;
  order_ = &pipeline_order(job_);
  shape_ = pipeline_shape(job_);
  names_received_ = job_.engine == Engine::kMegatron && runs_whole_stages(job_) &&
                    !job_.trains_in_part() &&
                    std::none_of(of_parts.begin(), of_parts.end(),
                                 [](const auto& layers) { return layers.value() == 0; });
  torch_steps_ = runs_torch_steps(job_);
  first_layers_.assign(1, 0);
  for (const Layers count : of_parts) first_layers_.push_back(first_layers_.back() + count);
  layers_are_alike_ = job_.model->kinds.size() == 1 &&
                      job_.recompute.mode != RecomputeMode::kEvery && !job_.trains_in_part();
  // torch's pipelines and scaling's hold buffers for micro-batches.
  const bool counts = torch_pipeline_ || keeps_outputs_;
  const Common common{job_.recompute.mode,
                      job_.recompute.every,
                      runs_whole_stages(job_),
                      names_received_,
                      splits_backward(),
                      micro_batches() > 1,
                      counts ? order_->schedule : PipelineSchedule{},
                      counts ? job_.training.gradient_accumulation : 0,
                      torch_pipeline_ ? shape_.chunks : 1};
  if (common == common_ && book_.program.node_count() < kMostNodes) return;
  common_ = common;
  if (scorer_) scorer_->forget_nodes();
  cache_.clear();
  chunks_.clear();
  parts_.clear();
  cuts_.clear();
  book_.program.forget_nodes();
  crests_.forget_nodes();
}

template <class N>
StagePrograms<N>::StagePrograms(const Job& job, SlotDetail detail, bool both)
    : StagePrograms(job, detail, std::make_shared<Graphs>(job)) {
  draw(both);
  draw_scorer(nullptr);
  make_engine();
}

template <class N>
std::shared_ptr<StagePrograms<N>> StagePrograms<N>::drawn(const Job& job) {
  std::shared_ptr<StagePrograms> result(
      new StagePrograms(job, SlotDetail::kSums, std::make_shared<Graphs>(job)));
  result->draw(true);
  result->draw_scorer(nullptr);
  return result;
}

template <class N>
StagePrograms<N>::StagePrograms(const Job& job, const std::shared_ptr<StagePrograms>& drawn)
    : StagePrograms(job, drawn->book_.detail(), drawn->graphs_) {
  drawn_ = drawn;
  book_ = drawn->book_;
  draw_scorer(drawn->scorer_.get());
  make_engine();
}

template <class N>
void StagePrograms<N>::make_engine() {
  context_ = std::make_unique<EngineContext<N>>(
      EngineContext<N>{job_, book_, units_, trained_units(), frozen_units_.get(), sizes_, style_,
                       gradients_of_kind_, embedding_.gradients, head_.gradients});
  engine_ = steelyard::make_engine(*context_);
}

template <class N>
StagePrograms<N>::~StagePrograms() = default;

template <class N>
bool StagePrograms<N>::is_untouched(int variant) const {
  return steelyard::is_untouched(job_.model->kinds[static_cast<std::size_t>(variant / 2)]);
}

template <class N>
void StagePrograms<N>::hold_buffers(const Stage<N>& stage, std::vector<Event>& events) const {
  for (const ModelBuffer& buffer : buffers_) {
    std::int64_t times = shape_.chunks;
    if (buffer.kind == ModelBuffer::kOfEmbedding) times = stage.embedding ? 1 : 0;
    if (buffer.kind >= 0) times = stage.layers_of_kind[static_cast<std::size_t>(buffer.kind)];
    if (times > 0) events.push_back({buffer.slot, static_cast<std::int32_t>(buffer.count * times)});
  }
}

template <class N>
void StagePrograms<N>::hold_whole_inputs(const Stage<N>& stage, std::int32_t count,
                                         std::vector<Event>& events) const {
  if (whole_ids_ < 0) return;
  if (stage.embedding) events.push_back({whole_ids_, count});
  if (stage.head) events.push_back({whole_ids_, count});
  events.push_back({whole_positions_, count});
  // A list of the parts, and the copy that was made last.
  events.push_back({parts_of_positions_, 2 * count});
}

template <class N>
bool StagePrograms<N>::recomputes(std::int64_t layer_in_stage, std::int64_t layer) const {
  const Recompute& how = job_.recompute;
  const std::int64_t number = how.mode == RecomputeMode::kEvery ? how.every : how.layers;
  return runs_again(how.mode, number, layer, layer_in_stage);
}

template <class N>
UnitSwings StagePrograms<N>::swings_of(Tapes& tapes) const {
  const auto play = [&](const std::vector<Event>& events) {
    Swing swing;
    for (const Event& event : events) {
      const Slot& slot = book_.program.slot_at(event.slot);
      if (slot.pile == Pile::kGradients) continue;
      swing.net += slot.bytes.value().value() * event.count;
      swing.height = std::max(swing.height, swing.net);
    }
    return swing;
  };
  UnitSwings swings;
  swings.forward = play(tapes.forward);
  for (const SlotId slot : tapes.lingering)
    swings.forward.net -= book_.program.slot_at(slot).bytes.value().value();
  swings.backward = play(tapes.backward_under(GradientPolicy::kKeep, BackwardPart::kWhole));
  if (!torch_pipeline_) return swings;
  swings.input = play(tapes.split_under(GradientPolicy::kKeep).input);
  swings.weight = play(tapes.split_under(GradientPolicy::kKeep).weight);
  // What torch's schedule has been given it forgets then.
  for (const SlotId slot : tapes.outliving)
    swings.input.net -= book_.program.slot_at(slot).bytes.value().value();
  return swings;
}

template <class N>
UnitSwings StagePrograms<N>::swings_of_kind(std::size_t kind, bool recomputed, bool borrows_input,
                                            bool borrows_gradient) {
  const int variant = static_cast<int>(kind) * 2 + (recomputed ? 1 : 0);
  return swings_of(tapes(variant, Edge{borrows_input, borrows_gradient}));
}

template <class N>
const std::vector<SlotId>& StagePrograms<N>::kept_of_kind(std::size_t kind, bool recomputed) const {
  return layers_[kind * 2 + (recomputed ? 1 : 0)].kept;
}

template <class N>
HostMemory StagePrograms<N>::host(std::int64_t index) {
  const Stage<N> stage = stage_of(index);
  HostMemory memory = engine_->host(stage);
  if (!style_.offloads_saved) return memory;
  const auto add = [&](const Tapes& tapes, std::int64_t times) {
    for (const Bytes copy : tapes.host_copies)
      memory.add_tensors("saved activations", "offload.activations", job_.offload.pinned, copy,
                         times);
  };
  if (stage.embedding) add(embedding_, 1);
  if (stage.head) add(head_, 1);
  for (const std::int64_t part : parts_on(index))
    for (const Group& group : groups_of(part))
      for (const Run& run : group.runs) add(tapes(run.variant), run.count * group.times);
  return memory;
}

template class StagePrograms<Checked>;
template class StagePrograms<Traced>;

}  // namespace steelyard
