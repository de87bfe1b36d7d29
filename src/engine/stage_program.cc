#include "engine/stage_program.h"

#include <algorithm>

#include "model/sequence.h"
#include "operators/ends.h"

namespace steelyard {

namespace {

bool has_module(const Recompute& recompute, RecomputeModule module) {
  return std::find(recompute.modules.begin(), recompute.modules.end(), module) !=
         recompute.modules.end();
}

}  // namespace

template <class N>
StagePrograms<N>::StagePrograms(const Job& job, SlotDetail detail, std::shared_ptr<Graphs> graphs)
    : job_(job),
      book_(detail),
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
                      counts ? job_.training.gradient_accumulation : 0};
  if (common == common_ && book_.program.node_count() < kMostNodes) return;
  common_ = common;
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
  make_engine();
}

template <class N>
std::shared_ptr<StagePrograms<N>> StagePrograms<N>::drawn(const Job& job) {
  std::shared_ptr<StagePrograms> result(
      new StagePrograms(job, SlotDetail::kSums, std::make_shared<Graphs>(job)));
  result->draw(true);
  return result;
}

template <class N>
StagePrograms<N>::StagePrograms(const Job& job, const std::shared_ptr<StagePrograms>& drawn)
    : StagePrograms(job, drawn->book_.detail(), drawn->graphs_) {
  drawn_ = drawn;
  book_ = drawn->book_;
  make_engine();
}

// `with_all`: layers of both variants, and those at the edges of torch's and Megatron's stages.
// scaling's TextDatasetBatch: tokens and two flags joined, of which inputs and targets are views; positions of one sequence;
// where sequences end, and the same padded; a weight for each token. Beside it the accuracy of the micro-batch.
template <class N>
SlotId StagePrograms<N>::whole_batch() {
  const N tokens = sizes_.batch * (sizes_.sequence + N(1));
  TensorSum tensors = book_.tensor_sum();
  const auto add = [&](const N& elements, ElementType type) {
    tensors.add(allocated_size(bytes_of(Elements(Checked(plain(elements))), type)), 1, 0);
  };
  add(tokens + N(2), ElementType::kInt64);
  add(sizes_.sequence, ElementType::kInt64);
  add(sizes_.batch + N(1), ElementType::kInt32);
  add(tokens, ElementType::kInt32);
  add(sizes_.tokens, ElementType::kFloat32);
  add(N(1), ElementType::kFloat32);
  return book_.slot_of_tensors({"inputs", "batch", "scaling.batch"}, Pile::kActivations,
                               tokens + N(2), ElementType::kInt64, std::move(tensors));
}

template <class N>
void StagePrograms<N>::draw(bool with_all) {
  const Architecture& model = *job_.model;
  if (job_.trains_in_part()) {
    trained_units_ = std::make_unique<const ModelUnits<N>>(units_of<N>(job_, Of::kTrained));
    frozen_units_ = std::make_unique<const ModelUnits<N>>(units_of<N>(job_, Of::kFrozen));
  }
  hidden_ = book_.slot({"residual", "hidden states", "op.residual.stream"}, Pile::kActivations,
                       sizes_.shard_tokens * sizes_.hidden, style_.residual);
  hidden_gradient_ =
      book_.slot({"residual", "gradient of the hidden states", "autograd.input-gradient"},
                 Pile::kTemporary, sizes_.shard_tokens * sizes_.hidden, style_.residual);
  if (torch_pipeline_) {
    const auto buffer = [&](const char* name) {
      return book_.slot({"pipeline", name, "pipeline.receive-buffer"}, Pile::kCommunication,
                        sizes_.shard_tokens * sizes_.hidden, style_.residual);
    };
    received_ = buffer("hidden states of the stage before");
    received_gradient_ = buffer("gradients of the stage after");
    gradient_of_received_ = buffer("gradients of what was received");
  }
  const auto input = [&](const char* name, const char* rule, const N& elements, ElementType type) {
    return book_.slot({"inputs", name, rule}, Pile::kActivations, elements, type);
  };
  const ElementType number = ElementType::kInt64;
  const bool sees = model.image.has_value();
  ids_ = sees ? input("pixels", "inputs.pixels", input_elements(), ElementType::kFloat32)
              : input("token ids", "inputs.token-ids", sizes_.tokens, number);
  graphs_->streams.fill({sizes_, style_, hidden_, hidden_gradient_});
  if (model.encoder_part) draw_stacks();
  labels_ = input("labels", "inputs.labels",
                  sees      ? sizes_.batch
                  : stacks_ ? graphs_->streams[1].sizes.tokens
                            : sizes_.tokens,
                  number);
  if (keeps_outputs_) ids_ = labels_ = whole_batch();
  if (cuts_inputs(job_, style_)) {
    const N whole = sizes_.sequence * sizes_.context;
    const auto slot = [&](const char* name, const N& elements) {
      return book_.slot({"inputs", name, "context.whole-inputs"}, Pile::kActivations, elements,
                        ElementType::kInt64);
    };
    whole_ids_ = slot("token ids or labels of whole sequences", sizes_.batch * whole);
    whole_positions_ = slot("position ids of whole sequences", whole);
    parts_of_positions_ = slot("position ids of this rank's part", sizes_.sequence);
  }
  if (job_.implementation == Implementation::kTorchtune) {
    const auto of_loop = [&](const char* name, const N& elements) {
      return book_.slot({"inputs", name, "torchtune.loop"}, Pile::kActivations, elements, number);
    };
    loop_.kept = true;
    loop_.sums = of_loop("tokens and losses of a step, summed", N(1));
    loop_.counted = of_loop("tokens that count", N(1));
    loop_.ignored = of_loop("column of ignored labels", sizes_.batch);
    loop_.leaving = book_.slot({"residual", "inputs of layers, leaving", "torchtune.offload-stash"},
                               Pile::kTemporary, sizes_.tokens * sizes_.hidden, style_.residual);
    loop_.scaler = of_loop("scale of the gradients", N(1));
  }
  inputs_ = shared_inputs<N>(job_, style_, sizes_, book_);
  buffers_ = model_buffers<N>(job_, book_);

  layers_.resize(model.kinds.size() * 2);
  gradients_of_kind_.resize(model.kinds.size());
  gradient_slots_of_kind_.resize(model.kinds.size());
  const bool some_whole = recomputes_layers(job_.recompute);
  for (std::size_t kind = 0; kind < model.kinds.size(); ++kind) {
    const bool all_again = job_.recompute.mode == RecomputeMode::kFull ||
                           job_.recompute.mode == RecomputeMode::kOperators;
    if (!all_again || with_all) compose_layer(layers_[kind * 2], kind, false, {});
    if (some_whole) compose_layer(layers_[kind * 2 + 1], kind, true, {});
  }
  compose_ends();
  const bool megatron = job_.engine == Engine::kMegatron;
  // What a stack's layers share comes first from the one on top; a layer whose copies return late begins with the head's.
  const bool tops = (stacks_ && !follows_vision(model)) || returns_late();
  if (!with_all || !(torch_pipeline_ || megatron || tops)) return;
  std::vector<Edge> at_edges;
  if (torch_pipeline_) at_edges = {{true, false}, {false, true}, {true, true}};
  if (megatron) at_edges = {{false, true}};
  if (tops) at_edges.push_back({false, false, false, true});
  for (int variant = 0; variant < static_cast<int>(layers_.size()); ++variant)
    if (layers_[static_cast<std::size_t>(variant)].composer != nullptr)
      for (const Edge& edge : at_edges) tapes(variant, edge);
}

template <class N>
void StagePrograms<N>::make_engine() {
  context_ = std::make_unique<EngineContext<N>>(EngineContext<N>{
      job_, book_, units_, trained_units_ ? *trained_units_ : units_, frozen_units_.get(), sizes_,
      style_, gradients_of_kind_, embedding_.gradients, head_.gradients});
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
void StagePrograms<N>::play(Tapes& tapes, const Reach& how) {
  Graph<N>& graph = tapes.composer->graph;
  if (tapes.composer->style.offloads_saved && how.leaves_device) graph.offload_saved();
  graph.finish();
  tapes.host_copies = graph.host_copies();
  tapes.forward = graph.forward();
  tapes.kept = graph.kept();
  // Where backward never comes, nothing else lets go of it.
  tapes.lingering = graph.lingering(how.unread);
  tapes.outliving = graph.outliving();
  tapes.named = graph.named();
  tapes.by_nodes = graph.kept_by_nodes();
  tapes.gradients = graph.parameter_gradients();
  tapes.states = graph.optimizer_states();
}

template <class N>
N StagePrograms<N>::input_elements() const {
  const std::optional<ImageInput>& image = job_.model->image;
  return image ? sizes_.batch * N(image->channels * image->size * image->size) : sizes_.tokens;
}

template <class N>
typename Composer<N>::Recomputed StagePrograms<N>::recomputed_parts(const Layer& layer) const {
  typename Composer<N>::Recomputed parts;
  if (job_.recompute.mode != RecomputeMode::kSelective &&
      job_.recompute.mode != RecomputeMode::kModules)
    return parts;
  const bool of_experts = std::holds_alternative<ExpertMlp>(layer.mlp);
  parts.core_attention = has_module(job_.recompute, RecomputeModule::kCoreAttention);
  parts.mlp =
      has_module(job_.recompute, of_experts ? RecomputeModule::kExperts : RecomputeModule::kMlp);
  parts.norms = has_module(job_.recompute, RecomputeModule::kNorms);
  parts.activation = of_experts && has_module(job_.recompute, RecomputeModule::kExpertActivation);
  return parts;
}

template <class N>
void StagePrograms<N>::compose_layer(Tapes& tapes, std::size_t kind, bool recomputed, Edge edge) {
  const Layer& layer = job_.model->kinds[kind];
  const typename Graphs::Stream& stream = stream_of(kind);
  const Sizes<N>& sizes = stream.sizes;
  const SlotId hidden = stream.hidden, hidden_gradient = stream.hidden_gradient;
  tapes.composer =
      std::make_unique<Composer<N>>(book_, stream.style, sizes, tensors_as_recorded(kind));
  Composer<N>& composer = *tapes.composer;
  composer.share_gradients(gradient_slots_of_kind_[kind]);
  composer.in_layer = true;
  if (!recomputed) composer.recomputed = recomputed_parts(layer);
  Graph<N>& graph = composer.graph;
  // What a layer that nobody reads is given is others' to let go.
  const ValueId x = graph.input(hidden, sizes.shard_tokens * sizes.hidden, style_.residual,
                                layer.input_needs_gradient, !edge.input && !layer.unread);
  if (stacks_) give_shared(composer, kind, edge.top);
  const ValueId y = steelyard::compose_layer(composer, layer, x);
  if (stacks_) take_shared(composer, kind, edge.top);
  graph.result(y, hidden);
  graph.gradient_slot(x, hidden_gradient);
  graph.gradient_slot(y, hidden_gradient);
  if (edge.gradient) graph.borrow_result_gradient();
  if (recomputed) composer.recompute_layer();
  // torchtitan's checkpoints run to the end of a layer (activation_checkpoint.early_stop is false, 0.2.2).
  if (recomputed && job_.recompute.mode == RecomputeMode::kOperators)
    graph.keep_chosen_outputs(job_.implementation != Implementation::kTorchtitan);
  if (torch_pipeline_) graph.keep_graph_between_parts();
  play(tapes, {.unread = layer.unread});
  if (layer.unread) tapes.gradients.clear();
  if (returns_late()) graph.return_late(edge.top ? head_.outliving : graph.returned_last());
  gradients_of_kind_[kind] = tapes.gradients;
}

template <class N>
void StagePrograms<N>::compose_ends() {
  if (divides_vocabulary()) return compose_vocabulary();
  const Architecture& model = *job_.model;
  const typename Graphs::Stream& stream = graphs_->streams[1];  // that the head reads
  const Sizes<N>& sizes = stream.sizes;
  const SlotId given = stream.hidden;
  head_.composer = std::make_unique<Composer<N>>(book_, style_, sizes, model.head_parameters);
  {
    Graph<N>& graph = head_.composer->graph;
    // model.forward rebinds the name of what the last layer gave; nanotron's blocks pass a dictionary that keeps it.
    const bool caller_holds = job_.implementation == Implementation::kNanotron;
    const ValueId x = graph.input(given, sizes.shard_tokens * sizes.hidden, style_.residual,
                                  model.head_input_needs_gradient, true, caller_holds);
    const ValueId labels =
        graph.input(labels_, sizes.tokens, ElementType::kInt64, false, loop_.kept, false);
    const ValueId ids = graph.input(ids_, sizes_.tokens, ElementType::kInt64, false, false);
    if (!model.predictions.empty()) {
      const auto kind = static_cast<std::size_t>(model.prediction_layer_kind);
      head_.composer->recomputed_in_predictions = recomputed_parts(model.kinds[kind]);
      // Megatron runs a module again where it does so with every layer.
      head_.composer->recomputed_in_predictions.module =
          job_.recompute.mode == RecomputeMode::kFull ||
          (job_.recompute.mode == RecomputeMode::kEvery && job_.recompute.every == 1);
    }
    ValueId loss = kNoValue;
    if (compares()) {
      const VisionPart& vision = *model.encoder_part->vision;
      const ValueId image = graph.input(
          stacks_->encoded, sizes.batch * Workbook<N>::symbol("j", vision.contrast->width),
          style_.compute, true, true, false);
      loss = compose_contrast(*head_.composer, model, x, ids, image);
      graph.gradient_slot(image, stacks_->encoded_gradient);
    } else {
      loss = compose_head(*head_.composer, model, x, labels, ids);
    }
    graph.gradient_slot(x, stream.hidden_gradient);
    if (loss != kNoValue) {  // the caller's, until it has run backward
      loss_ = graph.storage_slot(loss);
      graph.result(loss, loss_);
      loss_gradient_ = book_.slot({"loss", "gradient of the loss", "autograd.root-gradient"},
                                  Pile::kTemporary, N(1), ElementType::kFloat32);
    }
    if (torch_pipeline_) graph.keep_graph_between_parts();
    // Of torchtune's head nothing leaves the device: the last five that were saved have not gone when backward begins.
    play(head_, {.leaves_device = !loop_.kept});
    head_.model_returns = graph.forward_events_before(head_.composer->head_operators_of_model);
  }
  embedding_.composer =
      std::make_unique<Composer<N>>(book_, style_, sizes_, model.embedding_parameters);
  Graph<N>& graph = embedding_.composer->graph;
  WaitingGradient waiting = head_.composer->graph.waiting_gradient();
  if (stacks_) {
    compose_bridge();
    if (waiting.part < 0) waiting = stacks_->bridge.composer->graph.waiting_gradient();
  }
  // What the table's other uses have made together is the engine's alone.
  embedding_.composer->join_first_gradient(
      waiting, stacks_ != nullptr ||
                   (loop_.kept && style_.loss == LossKernel::kChunked && style_.loss_chunks > 1));
  if (sees()) {
    compose_vision_embedding();
    return;
  }
  const ValueId ids =
      graph.input(ids_, input_elements(), model.image ? ElementType::kFloat32 : ElementType::kInt64,
                  false, false);
  const ValueId y = compose_embedding(*embedding_.composer, model, ids);
  graph.result(y, hidden_);
  graph.gradient_slot(y, hidden_gradient_);
  play(embedding_);
  if (returns_late()) {
    const auto lowest = static_cast<std::size_t>(kind_of_each_layer(model).front());
    graph.return_late(layers_[lowest * 2 + 1].composer->graph.returned_last());
  }
  if (stacks_)
    for (const auto part : {&Tapes::gradients, &Tapes::states})
      (embedding_.*part)
          .insert((embedding_.*part).end(), (stacks_->bridge.*part).begin(),
                  (stacks_->bridge.*part).end());
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
