// The layers of a stage, folded: runs of equal layers, patterns that repeat, and their nodes in both directions.
#include <algorithm>

#include "engine/stage_program.h"

namespace steelyard {

namespace {

template <class T>
void append(std::vector<T>& to, const std::vector<T>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

}  // namespace

// The layers of a stage as runs of equal ones. Whole repeats of the model's own pattern stay folded; where the layers
// that recompute follow another rhythm (every k-th), runs are written out.
template <class N>
std::vector<typename StagePrograms<N>::Group> StagePrograms<N>::groups_of(
    std::int64_t stage) const {
  const std::vector<std::int64_t>& counts = job_.parallel.stage_layers;
  std::int64_t from = 0;
  for (std::int64_t before = 0; before < stage; ++before)
    from += counts[static_cast<std::size_t>(before)];
  const std::int64_t until = from + counts[static_cast<std::size_t>(stage)];
  const bool folded =
      job_.recompute.mode != RecomputeMode::kEvery && job_.recompute.mode != RecomputeMode::kBlock;
  const bool whole = job_.recompute.mode == RecomputeMode::kFull;
  std::vector<Group> groups;
  auto add_run = [&](int kind, std::int64_t first, std::int64_t last) {
    const std::int64_t begin = std::max(first, from), end = std::min(last, until);
    if (begin >= end) return;
    if (folded) {
      groups.push_back({{{kind * 2 + (whole ? 1 : 0), end - begin}}, 1});
      return;
    }
    for (std::int64_t layer = begin; layer < end; ++layer) {
      const int variant = kind * 2 + (recomputes(layer - from, layer) ? 1 : 0);
      if (!groups.empty() && groups.back().runs.back().variant == variant)
        ++groups.back().runs.back().count;
      else
        groups.push_back({{{variant, 1}}, 1});
    }
  };
  std::int64_t at = 0;
  for (const LayerGroup& group : job_.model->sequence) {
    std::int64_t length = 0;
    for (const LayerRun& run : group.runs) length += run.count;
    std::int64_t round = 0;
    while (round < group.times) {
      const std::int64_t begin = at + round * length;
      const std::int64_t inside = begin >= from && begin < until
                                      ? std::min(group.times - round, (until - begin) / length)
                                      : 0;
      if (folded && inside > 1) {
        Group repeated;
        repeated.times = inside;
        for (const LayerRun& run : group.runs)
          repeated.runs.push_back({run.kind * 2 + (whole ? 1 : 0), run.count});
        if (repeated.runs.size() == 1)
          repeated = {{{repeated.runs[0].variant, repeated.runs[0].count * inside}}, 1};
        groups.push_back(std::move(repeated));
        round += inside;
        continue;
      }
      if (begin + length <= from) {  // skip what lies before this stage in one stride
        const std::int64_t skipped =
            std::max<std::int64_t>(1, std::min(group.times - round, (from - begin) / length));
        round += skipped;
        continue;
      }
      if (begin >= until) break;
      std::int64_t position = begin;
      for (const LayerRun& run : group.runs) {
        add_run(run.kind, position, position + run.count);
        position += run.count;
      }
      ++round;
    }
    at += group.times * length;
  }
  return groups;
}

template <class N>
NodeId StagePrograms<N>::layer_node(int variant, const Neighbours& here, bool forward, bool first) {
  const bool aware = engine_->uses_neighbours();
  const int previous = aware ? here.previous : -2, next = aware ? here.next : -2;
  for (const CachedNode& known : cache_)
    if (known.variant == variant && known.previous == previous && known.next == next &&
        known.forward == forward && known.first == first)
      return known.node;
  Tapes& tape = tapes(variant);
  std::vector<Event> events;
  if (forward) {
    engine_->before_forward(here, first, events);
    append(events, tape.forward);
    engine_->after_forward(here, first, events);
  } else {
    engine_->before_backward(here, first, events);
    append(events, tape.backward_under(engine_->gradient_policy(first)));
    engine_->after_backward(here, first, events);
  }
  const NodeId node = book_.program.tape(forward ? Phase::kForward : Phase::kBackward, "", events);
  cache_.push_back({variant, previous, next, forward, first, node});
  return node;
}

// Layers in execution order. Where an engine looks at neighbours, the first and last of a run differ from those between.
template <class N>
NodeId StagePrograms<N>::layers_node(const std::vector<Group>& groups, bool forward, bool first) {
  struct Part {
    std::vector<Run> runs;
    std::int64_t times;
  };
  std::vector<Part> parts;
  for (const Group& group : groups) parts.push_back({group.runs, group.times});
  if (!forward) {
    std::reverse(parts.begin(), parts.end());
    for (Part& part : parts) std::reverse(part.runs.begin(), part.runs.end());
  }
  auto kind_of = [](int variant) { return variant / 2; };
  Program& program = book_.program;
  auto run_node = [&](const Run& run, int previous, int next) {
    const int self = kind_of(run.variant);
    if (!engine_->uses_neighbours() || run.count == 1)
      return program.repeat(
          "layer", layer_node(run.variant, {self, previous, next}, forward, first), run.count);
    return program.sequence(
        "",
        {program.repeat("layer", layer_node(run.variant, {self, previous, self}, forward, first),
                        1),
         program.repeat("layer", layer_node(run.variant, {self, self, self}, forward, first),
                        run.count - 2),
         program.repeat("layer", layer_node(run.variant, {self, self, next}, forward, first), 1)});
  };
  auto round_node = [&](const Part& part, int previous, int next) {
    std::vector<NodeId> nodes;
    for (std::size_t i = 0; i < part.runs.size(); ++i) {
      const int before = i == 0 ? previous : kind_of(part.runs[i - 1].variant);
      const int after = i + 1 == part.runs.size() ? next : kind_of(part.runs[i + 1].variant);
      nodes.push_back(run_node(part.runs[i], before, after));
    }
    return program.sequence("", nodes);
  };
  std::vector<NodeId> nodes;
  for (std::size_t p = 0; p < parts.size(); ++p) {
    const Part& part = parts[p];
    const int previous = p == 0 ? -1 : kind_of(parts[p - 1].runs.back().variant);
    const int next = p + 1 == parts.size() ? -1 : kind_of(parts[p + 1].runs.front().variant);
    if (part.times == 1) {
      nodes.push_back(round_node(part, previous, next));
      continue;
    }
    const int first_kind = kind_of(part.runs.front().variant),
              last_kind = kind_of(part.runs.back().variant);
    nodes.push_back(round_node(part, previous, first_kind));
    if (part.times > 2)
      nodes.push_back(
          program.repeat("pattern", round_node(part, last_kind, first_kind), part.times - 2));
    nodes.push_back(round_node(part, last_kind, next));
  }
  return program.sequence("layers", nodes);
}

template class StagePrograms<Checked>;
template class StagePrograms<Traced>;

}  // namespace steelyard
