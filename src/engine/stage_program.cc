#include "engine/stage_program.h"

#include <algorithm>

#include "operators/ends.h"

namespace steelyard {

namespace {

bool has_module(const Recompute& recompute, RecomputeModule module) {
  return std::find(recompute.modules.begin(), recompute.modules.end(), module) !=
         recompute.modules.end();
}

// transformers' masking_utils.py: the written-out form needs a mask of numbers for each sort of layer; kernels are told
// "causal", and take a mask of truths only for a window that is shorter than the sequence.
std::int64_t attention_masks(const Job& job, const OperatorStyle& style) {
  if (job.implementation != Implementation::kTransformers || job.model->encoder) return 0;
  bool whole = false, windowed = false, shorter = false;
  for (const Layer& layer : job.model->kinds) {
    const auto* attention = std::get_if<GroupedAttention>(&layer.attention);
    const bool window = attention != nullptr && attention->sliding_window.has_value();
    (window ? windowed : whole) = true;
    shorter = shorter || (window && job.training.sequence_length > *attention->sliding_window);
  }
  if (style.attention == AttentionKernel::kEager) return (whole ? 1 : 0) + (windowed ? 1 : 0);
  return shorter && style.attention == AttentionKernel::kEfficient ? 1 : 0;
}

}  // namespace

template <class N>
StagePrograms<N>::StagePrograms(const Job& job, SlotDetail detail)
    : job_(job),
      book_(detail),
      style_(style_of(job)),
      sizes_(sizes_of<N>(job)),
      units_(units_of<N>(job)),
      torch_pipeline_(runs_on_torch_pipelining(job)) {
  if (!job.training.frozen.empty()) {
    trained_units_ = std::make_unique<const ModelUnits<N>>(units_of<N>(job, Of::kTrained));
    frozen_units_ = std::make_unique<const ModelUnits<N>>(units_of<N>(job, Of::kFrozen));
  }
  const Architecture& model = *job.model;
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
  }
  ids_ = book_.slot({"inputs", "token ids", "inputs.token-ids"}, Pile::kActivations, sizes_.tokens,
                    ElementType::kInt64);
  labels_ = book_.slot({"inputs", "labels", "inputs.labels"}, Pile::kActivations, sizes_.tokens,
                       ElementType::kInt64);
  std::int64_t rotary = 0;
  bool rotary_in_float32 = false;
  for (const Layer& layer : model.kinds) {
    std::visit([&](const auto& attention) { rotary = std::max(rotary, attention.rotary_width); },
               layer.attention);
    if (const auto* attention = std::get_if<GroupedAttention>(&layer.attention))
      rotary_in_float32 = rotary_in_float32 || attention->rotary_in_float32;
  }
  if (job.implementation == Implementation::kTransformers && !model.encoder)
    position_ids_ = book_.slot({"inputs", "position ids", "inputs.position-ids"},
                               Pile::kActivations, sizes_.sequence, ElementType::kInt64);
  if (cuts_inputs()) {
    const N whole = sizes_.sequence * sizes_.context;
    const auto slot = [&](const char* name, const N& elements) {
      return book_.slot({"inputs", name, "context.whole-inputs"}, Pile::kActivations, elements,
                        ElementType::kInt64);
    };
    whole_ids_ = slot("token ids or labels of whole sequences", sizes_.batch * whole);
    whole_positions_ = slot("position ids of whole sequences", whole);
  }
  if (const std::int64_t masks = attention_masks(job, style_); masks > 0) {
    masks_ = masks;
    mask_ = book_.slot(
        {"inputs", "attention mask", "inputs.attention-mask"}, Pile::kActivations,
        sizes_.tokens * sizes_.sequence,
        style_.attention == AttentionKernel::kEager ? style_.residual : ElementType::kBool);
  }
  if (rotary > 0 && job.implementation == Implementation::kTransformers)
    rotary_frequencies_ =
        book_.slot({"rotary embedding", "frequencies", "op.rotary.frequencies"}, Pile::kParameters,
                   Workbook<N>::symbol("d", rotary) / N(2), ElementType::kFloat32);
  if (model.scaled_embedding && job.implementation == Implementation::kTransformers)
    embedding_scale_ = book_.slot({"embedding", "scale", "op.embedding.scale"}, Pile::kParameters,
                                  N(1), ElementType::kFloat32);
  if (rotary > 0)
    rotary_table_ = book_.slot({"inputs", "cos or sin", "op.rotary.table"}, Pile::kActivations,
                               sizes_.sequence * Workbook<N>::symbol("d", rotary),
                               rotary_in_float32 ? ElementType::kFloat32 : style_.residual);

  layers_.resize(model.kinds.size() * 2);
  gradients_of_kind_.resize(model.kinds.size());
  gradient_slots_of_kind_.resize(model.kinds.size());
  const bool some_whole = recomputes_layers();
  for (std::size_t kind = 0; kind < model.kinds.size(); ++kind) {
    if (job.recompute.mode != RecomputeMode::kFull)
      compose_layer(layers_[kind * 2], kind, false, {});
    if (some_whole) compose_layer(layers_[kind * 2 + 1], kind, true, {});
  }
  compose_ends();
  context_ = std::make_unique<EngineContext<N>>(EngineContext<N>{
      job_, book_, units_, trained_units_ ? *trained_units_ : units_, frozen_units_.get(), sizes_,
      style_, gradients_of_kind_, embedding_.gradients, head_.gradients});
  engine_ = make_engine(*context_);
}

template <class N>
StagePrograms<N>::~StagePrograms() = default;

template <class N>
bool StagePrograms<N>::is_untouched(int variant) const {
  return steelyard::is_untouched(job_.model->kinds[static_cast<std::size_t>(variant / 2)]);
}

template <class N>
void StagePrograms<N>::hold_buffers(std::vector<Event>& events) const {
  if (embedding_scale_ >= 0) events.push_back({embedding_scale_, 1});
  if (rotary_frequencies_ >= 0) events.push_back({rotary_frequencies_, rotary_copies()});
}

template <class N>
void StagePrograms<N>::hold_whole_inputs(const Stage<N>& stage, std::int32_t count,
                                         std::vector<Event>& events) const {
  if (!cuts_inputs()) return;
  if (stage.embedding) events.push_back({whole_ids_, count});
  if (stage.head) events.push_back({whole_ids_, count});
  events.push_back({whole_positions_, count});
}

template <class N>
bool StagePrograms<N>::recomputes_layers() const {
  return job_.recompute.mode == RecomputeMode::kFull ||
         job_.recompute.mode == RecomputeMode::kEvery ||
         job_.recompute.mode == RecomputeMode::kBlock;
}

template <class N>
void StagePrograms<N>::play(Tapes& tapes) {
  Graph<N>& graph = tapes.composer->graph;
  graph.finish();
  tapes.forward = graph.forward();
  tapes.kept = graph.kept();
  tapes.lingering = graph.lingering();
  tapes.outliving = graph.outliving();
  tapes.gradients = graph.parameter_gradients();
}

template <class N>
void StagePrograms<N>::compose_layer(Tapes& tapes, std::size_t kind, bool recomputed, Edge edge) {
  const Layer& layer = job_.model->kinds[kind];
  tapes.composer = std::make_unique<Composer<N>>(book_, style_, sizes_, layer.parameters);
  Composer<N>& composer = *tapes.composer;
  composer.share_gradients(gradient_slots_of_kind_[kind]);
  if (!recomputed && (job_.recompute.mode == RecomputeMode::kSelective ||
                      job_.recompute.mode == RecomputeMode::kModules)) {
    const bool of_experts = std::holds_alternative<ExpertMlp>(layer.mlp);
    composer.recomputed.core_attention =
        has_module(job_.recompute, RecomputeModule::kCoreAttention);
    composer.recomputed.mlp =
        has_module(job_.recompute, of_experts ? RecomputeModule::kExperts : RecomputeModule::kMlp);
    composer.recomputed.norms = has_module(job_.recompute, RecomputeModule::kNorms);
    composer.recomputed.activation =
        of_experts && has_module(job_.recompute, RecomputeModule::kExpertActivation);
  }
  Graph<N>& graph = composer.graph;
  const ValueId x = graph.input(hidden_, sizes_.shard_tokens * sizes_.hidden, style_.residual,
                                layer.input_needs_gradient, !edge.input);
  const ValueId y = steelyard::compose_layer(composer, layer, x);
  graph.result(y, hidden_);
  graph.gradient_slot(x, hidden_gradient_);
  graph.gradient_slot(y, hidden_gradient_);
  if (edge.gradient) graph.borrow_result_gradient();
  if (recomputed) composer.recompute_from(0);
  play(tapes);
  gradients_of_kind_[kind] = tapes.gradients;
}

template <class N>
void StagePrograms<N>::compose_ends() {
  const Architecture& model = *job_.model;
  head_.composer = std::make_unique<Composer<N>>(book_, style_, sizes_, model.head_parameters);
  {
    Graph<N>& graph = head_.composer->graph;
    // model.forward rebinds the name of what the last layer gave; nanotron's blocks pass a dictionary that keeps it.
    const bool caller_holds = job_.implementation == Implementation::kNanotron;
    const ValueId x = graph.input(hidden_, sizes_.shard_tokens * sizes_.hidden, style_.residual,
                                  model.head_input_needs_gradient, true, caller_holds);
    const ValueId labels = graph.input(labels_, sizes_.tokens, ElementType::kInt64, false, false);
    const ValueId loss = compose_head(*head_.composer, model, x, labels);
    graph.gradient_slot(x, hidden_gradient_);
    if (loss != kNoValue) {  // the caller's, until it has run backward
      loss_ = graph.storage_slot(loss);
      graph.result(loss, loss_);
      loss_gradient_ = book_.slot({"loss", "gradient of the loss", "autograd.root-gradient"},
                                  Pile::kTemporary, N(1), ElementType::kFloat32);
    }
    play(head_);
  }
  embedding_.composer =
      std::make_unique<Composer<N>>(book_, style_, sizes_, model.embedding_parameters);
  Graph<N>& graph = embedding_.composer->graph;
  if (model.tied_head && style_.ends_meet && !head_.gradients.empty())
    embedding_.composer->join_first_gradient(head_.gradients.back());
  const ValueId ids = graph.input(ids_, sizes_.tokens, ElementType::kInt64, false, false);
  const ValueId y = compose_embedding(*embedding_.composer, model, ids);
  graph.result(y, hidden_);
  graph.gradient_slot(y, hidden_gradient_);
  play(embedding_);
}

template <class N>
bool StagePrograms<N>::recomputes(std::int64_t layer_in_stage, std::int64_t layer) const {
  switch (job_.recompute.mode) {
    case RecomputeMode::kFull:
      return true;
    case RecomputeMode::kEvery:
      return layer % job_.recompute.every == 0;
    case RecomputeMode::kBlock:
      return layer_in_stage < job_.recompute.layers;
    default:
      return false;
  }
}

template <class N>
const std::vector<SlotId>& StagePrograms<N>::kept_of_kind(std::size_t kind, bool recomputed) const {
  return layers_[kind * 2 + (recomputed ? 1 : 0)].kept;
}

template <class N>
const typename StagePrograms<N>::Parts& StagePrograms<N>::parts_of(std::int64_t index) {
  Parts parts;
  parts.embedding = index == 0;
  parts.head = index == job_.parallel.pipeline - 1;
  parts.groups = groups_of(index);
  const std::vector<Group>& groups = parts.groups;
  const Stage<N> stage = stage_with(index, groups);
  parts.input_gradient = stage.input_gradient;
  parts.output_gradient = stage.output_gradient;
  for (const Parts& known : parts_)
    if (known.embedding == parts.embedding && known.head == parts.head &&
        known.input_gradient == parts.input_gradient &&
        known.output_gradient == parts.output_gradient && known.groups == parts.groups)
      return known;

  Program& program = book_.program;
  // Where units look at their neighbours, the first layer also looks at what else stands on its stage.
  if (engine_->uses_neighbours()) cache_.clear();
  std::vector<Event> load, states, reduce, optimizer, save;
  engine_->load(stage, load);
  hold_buffers(load);
  engine_->states(stage, states);
  // A stage without layers (nanotron splits so) loads nothing, and has its phase all the same.
  parts.load = load.empty() ? program.moment(Phase::kLoad, "load")
                            : program.tape(Phase::kLoad, "load", load);
  std::vector<Event> forward_workspaces, backward_workspaces, left;
  engine_->hold_forward_workspaces(forward_workspaces);
  engine_->hold_backward_workspaces(backward_workspaces);
  engine_->left_by_first_step(stage, left);
  hold_received(stage, forward_workspaces);
  parts.forward_workspaces = program.tape(Phase::kForward, "workspaces", forward_workspaces);
  parts.left = program.tape(Phase::kOptimizer, "first step", left);
  const NodeId of_backward = program.tape(Phase::kBackward, "workspaces", backward_workspaces);
  parts.held_later = program.sequence("", {of_backward, parts.left});
  parts.states = program.tape(engine_->makes_states_at_load() ? Phase::kLoad : Phase::kOptimizer,
                              "states", states);
  parts.first_forward = forward_node(stage, groups, true);
  const Backward first_backward = backward_node(stage, groups, true);
  parts.first_backward = first_backward.whole;
  // autograd's thread takes its workspace with its first product
  parts.first_step_backward = program.sequence(
      "backward", {first_backward.before_products, of_backward, first_backward.rest});
  if (job_.training.gradient_accumulation > 1) {
    parts.forward = forward_node(stage, groups, false);
    parts.backward = backward_node(stage, groups, false).whole;
  }
  engine_->reduce(stage, reduce);
  parts.output = output_of(stage);
  if (torch_pipeline_) end_of_torch_step(stage, reduce);
  engine_->optimizer(stage, optimizer);
  if (engine_->keeps_gradients()) {  // zero_grad
    for (const Group& group : groups)
      for (const Run& run : group.runs)
        for (SlotId slot : tapes(run.variant).gradients)
          optimizer.push_back({slot, static_cast<std::int32_t>(-run.count * group.times)});
    if (stage.head)
      for (SlotId slot : head_.gradients) optimizer.push_back({slot, -1});
    if (stage.embedding)
      for (SlotId slot : embedding_.gradients) optimizer.push_back({slot, -1});
  }
  engine_->checkpoint(stage, save);
  parts.reduce = program.sequence("", {program.tape(Phase::kBackward, "reduce", reduce),
                                       program.moment(Phase::kOptimizer, "optimizer")});
  parts.optimizer = program.tape(Phase::kOptimizer, "optimizer", optimizer);
  parts.checkpoint = program.sequence("", {program.moment(Phase::kCheckpoint, "checkpoint"),
                                           program.tape(Phase::kCheckpoint, "checkpoint", save)});
  parts_.push_back(std::move(parts));
  return parts_.back();
}

template <class N>
StageProgram StagePrograms<N>::build(std::int64_t index) {
  Program& program = book_.program;
  const Parts& parts = parts_of(index);
  StageProgram result;
  result.in_flight = micro_batches_in_flight(job_, index);
  const NodeId step =
      program.sequence("step", {micro_batches_node(parts, parts.first_backward, result.in_flight),
                                parts.reduce, parts.optimizer});
  result.later_step = program.sequence("", {step, parts.checkpoint});
  const NodeId first_gradients = program.sequence(
      "", {micro_batches_node(parts, parts.first_step_backward, result.in_flight), parts.reduce});
  if (engine_->makes_states_at_load()) {
    const NodeId start = program.sequence("", {parts.load, parts.states, parts.forward_workspaces});
    result.root = program.sequence("", {start, parts.held_later, result.later_step});
    result.first_step = program.sequence("", {start, first_gradients, parts.optimizer, parts.left});
    result.before_first_step = start;
    return result;
  }
  const NodeId start = program.sequence("", {parts.load, parts.forward_workspaces});
  result.root = program.sequence("", {start, parts.held_later, parts.states, result.later_step});
  result.first_step =
      program.sequence("", {start, first_gradients, parts.states, parts.optimizer, parts.left});
  result.before_first_step = start;
  return result;
}

template class StagePrograms<Checked>;
template class StagePrograms<Traced>;

}  // namespace steelyard
