// Finds the peak by descending into the part that holds it: at each sequence the child that reaches the height, at each
// repeat its first or last round. What came before is known from the net change of the parts passed over.
#include <algorithm>
#include <string_view>

#include "ledger/program.h"

namespace steelyard {

namespace {

void add_instances(const Program& program, NodeId id, std::int64_t times,
                   std::vector<std::int64_t>& alive) {
  const Node& node = program.node(id);
  switch (node.kind) {
    case NodeKind::kTape:
      for (const Event& event : program.events(node))
        alive[static_cast<std::size_t>(event.slot)] += event.count * times;
      return;
    case NodeKind::kSequence:
      for (NodeId child : program.children(node)) add_instances(program, child, times, alive);
      return;
    case NodeKind::kRepeat:
      add_instances(program, program.children(node)[0], times * node.times, alive);
      return;
  }
}

// How often `label` runs in all of `id`.
std::int64_t occurrences(const Program& program, NodeId id, std::string_view label) {
  const Node& node = program.node(id);
  if (node.label == label) return node.kind == NodeKind::kRepeat ? node.times : 1;
  std::int64_t sum = 0;
  if (node.kind != NodeKind::kTape)
    for (NodeId child : program.children(node)) sum += occurrences(program, child, label);
  return sum * node.times;
}

// Walks down to the event; calls `skip(node, times)` for all that was passed over, `enter(node, index)` for each level.
template <class Skip, class Enter, class Reach>
void descend(const Program& program, NodeId id, Phase phase, Skip skip, Enter enter, Reach reach) {
  const std::size_t which = static_cast<std::size_t>(phase);
  for (;;) {
    const Node& node = program.node(id);
    const std::int64_t target = node.span.peak[which];
    if (node.kind == NodeKind::kTape) {
      enter(node, std::int64_t{0});
      reach(node, target);
      return;
    }
    if (node.kind == NodeKind::kRepeat) {
      const NodeId body = program.children(node)[0];
      const std::int64_t round = program.span(body).change > 0 ? node.times - 1 : 0;
      enter(node, round);
      skip(body, round);
      id = body;
      continue;
    }
    enter(node, std::int64_t{0});
    std::int64_t height = 0;
    NodeId next = id;
    for (NodeId child : program.children(node)) {
      const Span& span = program.span(child);
      if (span.peak[which] != kNoPeak && height + span.peak[which] == target) {
        next = child;
        break;
      }
      skip(child, std::int64_t{1});
      height += span.change;
    }
    id = next;
  }
}

}  // namespace

PeakMoment find_peak(const Program& program, NodeId root, Phase phase) {
  PeakMoment moment;
  moment.alive.assign(program.slot_count(), 0);
  if (program.span(root).peak[static_cast<std::size_t>(phase)] == kNoPeak) return moment;
  moment.height = program.span(root).peak[static_cast<std::size_t>(phase)];
  // Layers and micro-batches are counted over the whole of what they belong to, however the program is folded.
  std::int64_t layers_passed = 0, layers = 0, forwards = 0, backwards = 0;
  descend(
      program, root, phase,
      [&](NodeId passed, std::int64_t times) {
        add_instances(program, passed, times, moment.alive);
        layers_passed += times * occurrences(program, passed, "layer");
        forwards += times * occurrences(program, passed, "forward");
        backwards += times * occurrences(program, passed, "backward");
      },
      [&](const Node& node, std::int64_t index) {
        const std::string_view label = node.label;
        if (label == "layers") {
          layers_passed = 0;
          layers = 0;
          for (NodeId child : program.children(node))
            layers += occurrences(program, child, "layer");
        }
        if (label == "layer")
          moment.path.push_back({node.label, layers_passed + index, layers});
        else if (label == "forward" || label == "backward")
          moment.path.push_back(
              {node.label, label == "forward" ? forwards : backwards, node.times});
        else if (!label.empty())
          moment.path.push_back({node.label, index, node.times});
      },
      [&](const Node& tape, std::int64_t target) {
        std::int64_t height = 0;
        if (target == 0) return;
        for (const Event& event : program.events(tape)) {
          moment.alive[static_cast<std::size_t>(event.slot)] += event.count;
          height += (program.slot_at(event.slot).bytes * Checked(event.count)).value().value();
          moment.allocating = event.slot;
          if (height == target) return;
        }
      });
  for (std::size_t slot = 0; slot < moment.alive.size(); ++slot) {
    const Slot& what = program.slot_at(static_cast<SlotId>(slot));
    moment.piles[what.pile] += what.bytes * Checked(moment.alive[slot]);
  }
  return moment;
}

std::vector<std::int64_t> net_instances(const Program& program, NodeId root) {
  std::vector<std::int64_t> alive(program.slot_count(), 0);
  add_instances(program, root, 1, alive);
  return alive;
}

Piles piles_at_peak(const Program& program, NodeId root, Phase phase) {
  Piles piles;
  if (program.span(root).peak[static_cast<std::size_t>(phase)] == kNoPeak) return piles;
  descend(
      program, root, phase,
      [&](NodeId passed, std::int64_t times) {
        piles += program.span(passed).net * Checked(times);
      },
      [](const Node&, std::int64_t) {},
      [&](const Node& tape, std::int64_t target) {
        std::int64_t height = 0;
        if (target == 0) return;
        for (const Event& event : program.events(tape)) {
          const Slot& slot = program.slot_at(event.slot);
          const Bytes bytes = slot.bytes * Checked(event.count);
          piles[slot.pile] += bytes;
          height += bytes.value().value();
          if (height == target) return;
        }
      });
  return piles;
}

}  // namespace steelyard
