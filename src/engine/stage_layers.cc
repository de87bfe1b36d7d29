// The layers of a stage, folded: runs of equal layers, patterns that repeat, and their nodes in both directions.
#include <algorithm>
#include <numeric>

#include "engine/stage_program.h"
#include "model/sequence.h"

namespace steelyard {

// The layers of a chunk as runs of equal ones, folded wherever the model's own pattern and the rhythm of recomputation
// (every k-th layer) come round together: how many runs there are depends on the two, not on the layers.
template <class N>
std::vector<typename StagePrograms<N>::Group> StagePrograms<N>::groups_of(std::int64_t part) const {
  const std::int64_t from = first_layers_[static_cast<std::size_t>(part)];
  const std::int64_t until = first_layers_[static_cast<std::size_t>(part) + 1];
  const RecomputeMode mode = job_.recompute.mode;
  const std::int64_t rhythm = mode == RecomputeMode::kEvery ? job_.recompute.every.value() : 1;
  // Mode block computes the first layers of a stage again: two stretches, each without a rhythm.
  const std::int64_t cut =
      mode == RecomputeMode::kBlock ? std::min(until, from + job_.recompute.layers) : until;

  std::vector<Group> groups;
  std::int64_t at = 0;
  for (const LayerGroup& pattern : job_.model->sequence) {
    std::int64_t length = 0;
    for (const LayerRun& run : pattern.runs) length += run.count;
    const std::int64_t end = at + pattern.times * length;
    const bool one_kind = pattern.runs.size() == 1;
    const std::int64_t period = std::lcm(one_kind ? std::int64_t{1} : length, rhythm);

    auto runs_of = [&](std::int64_t first, std::int64_t last) {
      std::vector<Run> runs;
      for (std::int64_t layer = first, next = first; layer < last; layer = next) {
        std::size_t run = 0;
        next = last;
        if (!one_kind) {
          std::int64_t position = (layer - at) % length;
          while (position >= pattern.runs[run].count) position -= pattern.runs[run++].count;
          next = std::min(next, layer + pattern.runs[run].count - position);
        }
        const bool again = recomputes(layer - from, layer);
        if (rhythm > 1) next = std::min(next, again ? layer + 1 : (layer / rhythm + 1) * rhythm);
        const int variant = pattern.runs[run].kind * 2 + (again ? 1 : 0);
        if (!runs.empty() && runs.back().variant == variant)
          runs.back().count += next - layer;
        else
          runs.push_back({variant, next - layer});
      }
      return runs;
    };
    auto fold = [&](std::int64_t first, std::int64_t last) {
      if (first >= last) return;
      const std::int64_t times = (last - first) / period;
      if (times > 1) {
        Group repeated{runs_of(first, first + period), times};
        if (repeated.runs.size() == 1)
          repeated = {{{repeated.runs[0].variant, repeated.runs[0].count * times}}, 1};
        groups.push_back(std::move(repeated));
        first += times * period;
      }
      if (first < last) groups.push_back({runs_of(first, last), 1});
    };
    fold(std::max(from, at), std::min(cut, end));
    fold(std::max(cut, at), std::min(until, end));
    at = end;
  }
  return groups;
}

template <class N>
bool StagePrograms<N>::gradient_before(std::int64_t layer) const {
  const Architecture& model = *job_.model;
  if (layer >= model.layers) return model.head_input_needs_gradient;
  const std::vector<int> kinds = kind_of_each_layer(model);
  return model.kinds[static_cast<std::size_t>(kinds[static_cast<std::size_t>(layer)])]
      .input_needs_gradient;
}

template <class N>
std::vector<std::int64_t> StagePrograms<N>::parts_on(std::int64_t rank) const {
  std::vector<std::int64_t> parts;
  for (int chunk = 0; chunk < static_cast<int>(shape_.chunks); ++chunk)
    parts.push_back(part_of(order_->placement, shape_, rank, chunk).index);
  return parts;
}

template <class N>
Stage<N> StagePrograms<N>::stage_of(std::int64_t index) const {
  return stage_with(index, parts_on(index));
}

template <class N>
Stage<N> StagePrograms<N>::stage_with(std::int64_t rank,
                                      const std::vector<std::int64_t>& parts) const {
  const auto parts_of_model = static_cast<std::int64_t>(job_.parallel.stage_layers.size());
  Stage<N> stage;
  stage.index = rank;
  stage.layers_of_kind.assign(job_.model->kinds.size(), 0);
  for (const std::int64_t part : parts) {
    stage.embedding = stage.embedding || part == 0;
    stage.head = stage.head || part == parts_of_model - 1;
    for (const Group& group : groups_of(part))
      for (const Run& run : group.runs) {
        stage.layers_of_kind[static_cast<std::size_t>(run.variant / 2)] += run.count * group.times;
        if (is_untouched(run.variant)) stage.untouched_below = run.variant / 2;
      }
  }
  if (job_.trains_in_part()) {
    const auto at = static_cast<std::size_t>(parts.front());
    stage.input_gradient = gradient_before(first_layers_[at]);
    stage.output_gradient = gradient_before(first_layers_[at + 1]);
  }
  stage.units.reserve(stage.layers_of_kind.size() + 3);
  stage.units.push_back(stage.embedding ? 1 : 0);
  stage.units.insert(stage.units.end(), stage.layers_of_kind.begin(), stage.layers_of_kind.end());
  stage.units.push_back(stage.head ? 1 : 0);
  const bool copies_table = stage.head && !stage.embedding && head_reads_embedding(*job_.model);
  stage.units.push_back(copies_table || divides_vocabulary() ? 1 : 0);
  return stage;
}

template <class N>
typename StagePrograms<N>::Tapes& StagePrograms<N>::tapes(int variant, Edge edge) {
  edge.named_input = false;  // changes what forward frees, and no tape
  if (edge == Edge{}) return tapes(variant);
  for (const auto& known : edges_)
    if (known->variant == variant && known->edge == edge) return known->tapes;
  edges_.push_back(std::make_unique<EdgeTapes<N>>());
  EdgeTapes<N>& made = *edges_.back();
  made.variant = variant;
  made.edge = edge;
  compose_layer(made.tapes, static_cast<std::size_t>(variant / 2), variant % 2 == 1, edge);
  return made.tapes;
}

template <class N>
std::vector<Event> StagePrograms<N>::backward_events(Tapes& tapes, BackwardPart part, bool first,
                                                     bool first_gradients) {
  const GradientPolicy policy = engine_->gradient_policy(first);
  std::vector<Event> events = tapes.backward_under(policy, part);
  if (!first_gradients || part != BackwardPart::kWhole) return events;
  std::vector<Event> of_engine;
  engine_->first_gradients(first, of_engine);
  const std::size_t at = tapes.whole_under(policy).first_gradient;
  events.insert(events.begin() + static_cast<std::ptrdiff_t>(at), of_engine.begin(),
                of_engine.end());
  return events;
}

template <class N>
NodeId StagePrograms<N>::layer_node(int variant, const Neighbours& here, Edge edge, bool forward,
                                    bool first, BackwardPart part) {
  const bool aware = engine_->uses_neighbours();
  const int previous = aware ? here.previous : -2, next = aware ? here.next : -2;
  const bool first_gradients = aware && here.first_gradients;
  for (const CachedNode& known : cache_)
    if (known.variant == variant && known.previous == previous && known.next == next &&
        known.first_gradients == first_gradients && known.forward == forward &&
        known.first == first && known.edge == edge && known.part == part)
      return known.node;
  Tapes& tape = tapes(variant, edge);
  std::vector<Event> events;
  if (forward) {
    engine_->before_forward(here, first, events);
    const bool handed_out =
        reads_patches(*job_.model) && !decodes(static_cast<std::size_t>(variant / 2));
    append(events, edge.named_input || handed_out ? tape.composer->graph.forward(kLayerInput)
                                                  : tape.forward);
    engine_->after_forward(here, first, events);
  } else {
    if (part != BackwardPart::kWeight) engine_->before_backward(here, first, events);
    positions_gone(static_cast<std::size_t>(variant / 2), events);
    append(events, backward_events(tape, part, first, here.first_gradients));
    if (part != BackwardPart::kInput) engine_->after_backward(here, first, events);
  }
  const NodeId node = book_.program.tape(forward ? passage() : Phase::kBackward, "", events);
  note_launches(node, tape, forward, first);
  cache_.push_back({variant, previous, next, first_gradients, forward, first, edge, part, node});
  return node;
}

// Layers in execution order. Where an engine looks at neighbours, the first and last of a run differ from those between.
template <class N>
NodeId StagePrograms<N>::layers_node(const std::vector<Group>& groups, Edge edge, bool forward,
                                     bool first, bool gradients_before, BackwardPart part,
                                     Beyond beyond) {
  std::vector<Group> parts = groups;
  if (!forward) {
    std::reverse(parts.begin(), parts.end());
    for (Group& group : parts) std::reverse(group.runs.begin(), group.runs.end());
  }
  auto kind_of = [](int variant) { return variant / 2; };
  Program& program = book_.program;
  // Gradients of parameters, so that their first arrival is told once: other layers have run backward before.
  bool arrived = forward || gradients_before || beyond.previous >= 0;
  auto run_node = [&](const Run& run, int previous, int next) {
    const int self = kind_of(run.variant);
    const bool arrive = !arrived && !gradients_of_kind_[static_cast<std::size_t>(self)].empty();
    arrived = arrived || arrive;
    // Forward begins where backward ends.
    const bool lowest = (forward ? previous : next) < 0, highest = (forward ? next : previous) < 0;
    const Edge of_lowest{lowest && edge.input, false, lowest && edge.named_input, false};
    const Edge of_highest{false, highest && edge.gradient, false, highest && edge.top};
    const Edge of_both{of_lowest.input, of_highest.gradient, of_lowest.named_input, of_highest.top};
    const Edge of_first = forward ? of_lowest : of_highest;
    const Edge of_last = forward ? of_highest : of_lowest;
    const auto node = [&](Neighbours here, Edge at) {
      if (here.previous < 0) here.previous = beyond.previous;
      if (here.next < 0) here.next = beyond.next;
      return layer_node(run.variant, here, at, forward, first, part);
    };
    if (run.count == 1 || (!engine_->uses_neighbours() && of_both == Edge{}))
      return program.repeat("layer", node({self, previous, next, arrive}, of_both), run.count);
    return program.sequence(
        "", {program.repeat("layer", node({self, previous, self, arrive}, of_first), 1),
             program.repeat("layer", node({self, self, self}, {}), run.count - 2),
             program.repeat("layer", node({self, self, next}, of_last), 1)});
  };
  auto round_node = [&](std::size_t p, int previous, int next, bool last_round) {
    const Group& group = parts[p];
    std::vector<NodeId> nodes;
    for (std::size_t i = 0; i < group.runs.size(); ++i) {
      const int before = i == 0 ? previous : kind_of(group.runs[i - 1].variant);
      const int after = i + 1 == group.runs.size() ? next : kind_of(group.runs[i + 1].variant);
      nodes.push_back(run_node(group.runs[i], before, after));
      if (!forward && last_round && lets_inputs_go(part))
        nodes.push_back(
            inputs_gone_after(groups, {parts.size() - 1 - p, group.runs.size() - 1 - i}));
    }
    return program.sequence("", nodes);
  };
  std::vector<NodeId> nodes;
  for (std::size_t p = 0; p < parts.size(); ++p) {
    const Group& group = parts[p];
    const int previous = p == 0 ? -1 : kind_of(parts[p - 1].runs.back().variant);
    const int next = p + 1 == parts.size() ? -1 : kind_of(parts[p + 1].runs.front().variant);
    if (group.times == 1) {
      nodes.push_back(round_node(p, previous, next, true));
      continue;
    }
    const int first_kind = kind_of(group.runs.front().variant),
              last_kind = kind_of(group.runs.back().variant);
    nodes.push_back(round_node(p, previous, first_kind, false));
    if (group.times > 2)
      nodes.push_back(
          program.repeat("pattern", round_node(p, last_kind, first_kind, false), group.times - 2));
    nodes.push_back(round_node(p, last_kind, next, true));
  }
  return program.sequence("layers", nodes);
}

template class StagePrograms<Checked>;
template class StagePrograms<Traced>;

}  // namespace steelyard
