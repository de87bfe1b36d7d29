// An encoder and a decoder on one stage: what stands between them, and what the layers of each share.
//
//   forward    embedding · layers of the encoder · bridge · layers of the decoder · head
//   backward   head · layers of the decoder · bridge · layers of the encoder · embedding
//
// What the encoder gave is kept until the decoder's first layer has run backward; its gradient grows with every layer of the
// decoder, and so do those of the positions, in either stack, that its first layer has looked up.
#include "engine/stage_program.h"
#include "operators/ends.h"

namespace steelyard {

namespace {

const GroupedAttention& attention_of(const Layer& layer) {
  return std::get<GroupedAttention>(layer.attention);
}

}  // namespace

template <class N>
bool StagePrograms<N>::looks_up_positions(std::size_t kind) const {
  return attention_of(job_.model->kinds[kind]).relative->table_index >= 0;
}

template <class N>
bool StagePrograms<N>::shares_positions(bool decoder) const {
  const std::int64_t encoder = job_.model->encoder_part->layers;
  return (decoder ? job_.model->layers - encoder : encoder) > 1;
}

template <class N>
void StagePrograms<N>::draw_stacks() {
  using Stacks = typename Graphs::Stacks;
  stacks_ = std::make_unique<Stacks>();
  Stacks& stacks = *stacks_;
  if (sees()) {
    draw_vision();
    return;
  }
  typename Graphs::Stream& decoder = graphs_->streams[1];
  Sizes<N>& of_target = decoder.sizes;
  of_target.sequence = Workbook<N>::symbol("u", job_.training.target_sequence_length.value());
  of_target.tokens = of_target.batch * of_target.sequence;
  of_target.shard_tokens = of_target.tokens;
  const auto kept = [&](const SlotName& name, const N& elements, ElementType type) {
    return book_.slot(name, Pile::kActivations, elements, type);
  };
  const auto gradient = [&](const char* name, const N& elements, ElementType type) {
    return book_.slot({"decoder", name, "autograd.input-gradient"}, Pile::kTemporary, elements,
                      type);
  };
  const N target = of_target.tokens * sizes_.hidden;
  const N source = sizes_.tokens * sizes_.hidden;
  decoder.hidden = kept({"residual", "hidden states of the decoder", "op.residual.stream"}, target,
                        style_.residual);
  decoder.hidden_gradient =
      gradient("gradient of the decoder's hidden states", target, style_.residual);
  stacks.encoded = kept({"decoder", "output of the encoder", "op.cross-attention.encoded"}, source,
                        style_.residual);
  stacks.encoded_gradient = gradient("gradient of the encoder's output", source, style_.residual);
  const N heads = Workbook<N>::symbol("n", attention_of(job_.model->kinds.front()).heads);
  for (const std::size_t stack : {std::size_t{0}, std::size_t{1}}) {
    const N length = stack == 0 ? sizes_.sequence : of_target.sequence;
    const N elements = heads * length * length;
    stacks.positions[stack] =
        kept({"attention", "relative positions", "op.relative-positions.output"}, elements,
             style_.residual);
    stacks.positions_gradient[stack] =
        gradient("gradient of the relative positions", elements, style_.residual);
  }
  const N across = heads * of_target.sequence * sizes_.sequence;
  stacks.cross_positions =
      kept({"attention", "positions towards the encoder", "op.relative-positions.zeros"}, across,
           style_.compute);
  stacks.cross_positions_gradient =
      gradient("gradient of the positions towards the encoder", across, style_.compute);
}

template <class N>
void StagePrograms<N>::compose_bridge() {
  typename Graphs::Stacks& stacks = *stacks_;
  stacks.bridge.composer = std::make_unique<Composer<N>>(book_, style_, graphs_->streams[1].sizes,
                                                         job_.model->embedding_parameters);
  if (compares()) {
    compose_comparison_bridge();
    return;
  }
  if (sees()) {
    compose_patches_bridge();
    return;
  }
  Composer<N>& composer = *stacks.bridge.composer;
  composer.join_first_gradient(head_.composer->graph.waiting_gradient());
  composer.first_gradient_waits();
  Graph<N>& graph = composer.graph;
  const ValueId x =
      graph.input(hidden_, sizes_.tokens * sizes_.hidden, style_.residual, true, true, false);
  const Bridge bridge = steelyard::compose_bridge(composer, *job_.model, x, sizes_.tokens);
  graph.gradient_slot(x, hidden_gradient_);
  graph.result(bridge.encoded, stacks.encoded);
  graph.gradient_slot(bridge.encoded, stacks.encoded_gradient);
  graph.result(bridge.decoded, graphs_->streams[1].hidden);
  graph.gradient_slot(bridge.decoded, graphs_->streams[1].hidden_gradient);
  if (bridge.mask != kNoValue) stacks.mask = graph.storage_slot(bridge.mask);
  play(stacks.bridge);
  stacks.encoder_returns = graph.forward_events_before(bridge.operators_of_encoder);
}

template <class N>
void StagePrograms<N>::give_shared(Composer<N>& composer, std::size_t kind, bool top) {
  if (sees()) return;
  const typename Graphs::Stacks& stacks = *stacks_;
  Graph<N>& graph = composer.graph;
  const bool first = looks_up_positions(kind), decoder = decodes(kind);
  const std::size_t stack = decoder ? 1 : 0;
  composer.stack.checkpointed = checkpoints_stacks();
  const auto given = [&](SlotId slot, SlotId gradient, const N& elements, ElementType type,
                         bool asks, bool released) {
    const ValueId value = graph.input(slot, elements, type, asks, released, false);
    if (asks && top) graph.gradient_slot(value, gradient);
    if (asks && !top) graph.gradient_waits(value, gradient);
    return value;
  };
  const N heads = Workbook<N>::symbol("n", attention_of(job_.model->kinds[kind]).heads);
  const N& length = composer.sizes.sequence;
  if (!first)
    composer.stack.positions = given(stacks.positions[stack], stacks.positions_gradient[stack],
                                     heads * length * length, style_.residual, true, false);
  if (!decoder) return;
  composer.stack.source_sequence = sizes_.sequence;
  composer.stack.encoded =
      given(stacks.encoded, stacks.encoded_gradient, sizes_.tokens * sizes_.hidden, style_.residual,
            true, first && keeps_encoded());
  if (!first)
    composer.stack.cross_positions =
        given(stacks.cross_positions, stacks.cross_positions_gradient,
              heads * length * sizes_.sequence, style_.compute, checkpoints_stacks(), false);
}

template <class N>
void StagePrograms<N>::take_shared(Composer<N>& composer, std::size_t kind, bool top) {
  if (sees() || !looks_up_positions(kind)) return;
  const typename Graphs::Stacks& stacks = *stacks_;
  Graph<N>& graph = composer.graph;
  const bool decoder = decodes(kind);
  const std::size_t stack = decoder ? 1 : 0;
  graph.name(composer.stack.positions, stacks.positions[stack]);
  graph.hold(composer.stack.positions);  // the layer returns it
  if (!top) graph.gradient_waits(composer.stack.positions, stacks.positions_gradient[stack]);
  if (!decoder) return;
  graph.name(composer.stack.cross_positions, stacks.cross_positions);
  graph.hold(composer.stack.cross_positions);
  if (!checkpoints_stacks()) return;
  if (top)
    graph.gradient_slot(composer.stack.cross_positions, stacks.cross_positions_gradient);
  else
    graph.gradient_waits(composer.stack.cross_positions, stacks.cross_positions_gradient);
}

template <class N>
std::array<std::vector<typename StagePrograms<N>::Group>, 2> StagePrograms<N>::stacks_of(
    const std::vector<Group>& groups) const {
  std::array<std::vector<Group>, 2> stacks;
  for (const Group& group : groups) {
    const bool decoder = decodes(static_cast<std::size_t>(group.runs.front().variant / 2));
    stacks[decoder ? 1 : 0].push_back(group);
  }
  return stacks;
}

template <class N>
const char* StagePrograms<N>::bridge_label() const {
  if (compares()) return "between the towers";
  return sees() ? "projector" : "encoder's end";
}

template <class N>
void StagePrograms<N>::encoder_returns(std::vector<Event>& events) {
  if (compares()) return;
  if (sees()) return hidden_states_gone(events);
  for (const SlotId slot : embedding_.named) events.push_back({slot, -1});
  if (!checkpoints_stacks() || !shares_positions(false))
    events.push_back({stacks_->positions[0], -1});
}

template <class N>
NodeId StagePrograms<N>::bridge_node(bool forward, bool first) {
  const typename Graphs::Stacks& stacks = *stacks_;
  std::vector<Event> events;
  if (forward) {
    const std::vector<Event>& own = stacks.bridge.forward;
    const auto returns = own.begin() + static_cast<std::ptrdiff_t>(stacks.encoder_returns);
    events.assign(own.begin(), returns);
    encoder_returns(events);
    events.insert(events.end(), returns, own.end());
    // The inputs that layers of text share.
    if (sees())
      for (const SharedInput& input : inputs_) events.push_back({input.slot, input.count});
  } else {
    const std::vector<Group> text = stacks_of(groups_of(0))[1];
    if (sees())
      for (const SharedInput& input : inputs_)
        if (input.kept && lowest_reader(input, text).value_or(Position{}) == Position{})
          events.push_back({input.slot, -input.count});
    if (checkpoints_stacks() && stacks.mask >= 0) events.push_back({stacks.mask, -1});
    const std::vector<Event>& own =
        stacks_->bridge.backward_under(engine_->gradient_policy(first), BackwardPart::kWhole);
    events.insert(events.end(), own.begin(), own.end());
  }
  const NodeId node =
      book_.program.tape(forward ? Phase::kForward : Phase::kBackward, bridge_label(), events);
  note_launches(node, stacks.bridge, forward, first);
  return node;
}

template <class N>
void StagePrograms<N>::decoder_returns(std::vector<Event>& events) const {
  const typename Graphs::Stacks& stacks = *stacks_;
  if (compares()) return;
  if (sees()) {
    for (const SlotId slot : stacks.bridge.named)
      if (slot != stacks.features) events.push_back({slot, -1});
    return;
  }
  for (const SlotId slot : stacks.bridge.named)
    if (slot != stacks.mask || !checkpoints_stacks()) events.push_back({slot, -1});
  if (!checkpoints_stacks() || !shares_positions(true)) events.push_back({stacks.positions[1], -1});
  // Nobody keeps them, unless a kernel took them as they are: then the first layer lets them go.
  for (const Tapes& layer : layers_)
    for (const SlotId slot : layer.named)
      if (slot == stacks.cross_positions && !checkpoints_stacks()) events.push_back({slot, -1});
}

template <class N>
void StagePrograms<N>::model_returns(std::vector<Event>& events) const {
  // What the output of the model names.
  if (sees()) {
    if (!compares()) events.push_back({stacks_->features, -1});
    if (compares())
      for (const SlotId slot : stacks_->bridge.named) events.push_back({slot, -1});
    for (const SlotId slot : embedding_.named) events.push_back({slot, -1});
  } else if (!keeps_encoded()) {
    events.push_back({stacks_->encoded, -1});
  }
}

template <class N>
void StagePrograms<N>::stacks_end(std::vector<Event>& events) const {
  if (sees()) {
    if (stacks_->words_are_leaf) events.push_back({stacks_->words, -1});
    for (const SlotId slot : embedding_.outliving) events.push_back({slot, -1});
    if (stacks_->leaf_gradient >= 0) events.push_back({stacks_->leaf_gradient, -1});
  }
  if (sees() || !checkpoints_stacks()) return;
  // A leaf and its gradient, which go with the graph.
  events.push_back({stacks_->cross_positions_gradient, -1});
  events.push_back({stacks_->cross_positions, -1});
}

template <class N>
void StagePrograms<N>::positions_gone(std::size_t kind, std::vector<Event>& events) const {
  if (!stacks_ || sees() || !checkpoints_stacks() || !looks_up_positions(kind)) return;
  const bool decoder = decodes(kind);
  if (shares_positions(decoder)) events.push_back({stacks_->positions[decoder ? 1 : 0], -1});
}

template class StagePrograms<Checked>;
template class StagePrograms<Traced>;

}  // namespace steelyard
