// The model's operators as one stage draws them: slots of what flows between layers, the graph of each kind of layer and of
// both ends, and the tapes that are played from them.
#include <algorithm>

#include "engine/stage_program.h"
#include "model/sequence.h"
#include "operators/ends.h"

namespace steelyard {

namespace {

bool has_module(const Recompute& recompute, RecomputeModule module) {
  return std::find(recompute.modules.begin(), recompute.modules.end(), module) !=
         recompute.modules.end();
}

}  // namespace

// `with_all`: layers of both variants, and those at the edges of torch's and Megatron's stages.
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
  if (keeps_outputs_) book_.oldest_goes(ids_);
  // What is kept of the head for the schedule goes when the next is there, whichever micro-batch made it.
  if (keeps_outputs_ || torch_pipeline_)
    for (const SlotId output : head_.outliving) book_.oldest_goes(output);
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
    graph.keep_chosen_outputs(job_.implementation != Implementation::kTorchtitan, style_.compiled);
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
    const int to_logits = head_.composer->head_operators_to_logits;
    head_.logits = to_logits > 0 ? graph.forward_events_before(to_logits) : head_.forward.size();
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

template class StagePrograms<Checked>;
template class StagePrograms<Traced>;

}  // namespace steelyard
