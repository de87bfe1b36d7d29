#include "ledger/program.h"

#include <algorithm>

namespace steelyard {

std::int64_t Span::highest() const { return *std::max_element(peak.begin(), peak.end()); }

namespace {

std::int64_t add(std::int64_t a, std::int64_t b) { return (Checked(a) + Checked(b)).value(); }
std::int64_t multiply(std::int64_t a, std::int64_t b) { return (Checked(a) * Checked(b)).value(); }

}  // namespace

Span concatenate(const Span& first, const Span& second) {
  Span joined;
  joined.net = first.net + second.net;
  joined.change = add(first.change, second.change);
  for (std::size_t phase = 0; phase < kPhaseCount; ++phase) {
    joined.peak[phase] = first.peak[phase];
    if (second.peak[phase] != kNoPeak)
      joined.peak[phase] = std::max(joined.peak[phase], add(first.change, second.peak[phase]));
  }
  return joined;
}

Span repeat(const Span& body, std::int64_t times) {
  Span repeated;
  if (times <= 0) return repeated;
  repeated.net = body.net * times;
  repeated.change = multiply(body.change, times);
  // Each round starts `change` higher than the one before: the last round peaks highest when memory grows, else the first.
  const std::int64_t lift = body.change > 0 ? multiply(body.change, times - 1) : 0;
  for (std::size_t phase = 0; phase < kPhaseCount; ++phase)
    if (body.peak[phase] != kNoPeak) repeated.peak[phase] = add(body.peak[phase], lift);
  return repeated;
}

Program::Program() {
  slots_.reserve(256);
  events_.reserve(2048);
  nodes_.reserve(512);
  children_.reserve(1024);
  nodes_.push_back(Node{NodeKind::kSequence, Phase::kForward, "", 0, 0, 1, Span{}});
}

void Program::forget_nodes() {
  events_.clear();
  children_.clear();
  nodes_.resize(1);
}

SlotId Program::slot(const Slot& slot) {
  slots_.push_back(slot);
  return static_cast<SlotId>(slots_.size() - 1);
}

NodeId Program::tape(Phase phase, const char* label, std::span<const Event> events) {
  if (events.empty()) return empty();
  Node node;
  node.kind = NodeKind::kTape;
  node.phase = phase;
  node.label = label;
  node.begin = static_cast<std::int32_t>(events_.size());
  events_.insert(events_.end(), events.begin(), events.end());
  node.end = static_cast<std::int32_t>(events_.size());
  std::int64_t height = 0;
  std::int64_t highest = 0;
  for (const Event& event : events) {
    const Slot& slot = slot_at(event.slot);
    const Bytes bytes = slot.bytes * Checked(event.count);
    node.span.net[slot.pile] += bytes;
    height = add(height, bytes.value().value());
    highest = std::max(highest, height);
  }
  node.span.change = height;
  node.span.peak[static_cast<std::size_t>(phase)] = highest;
  nodes_.push_back(node);
  return static_cast<NodeId>(nodes_.size() - 1);
}

NodeId Program::moment(Phase phase, const char* label) {
  Node node;
  node.kind = NodeKind::kTape;
  node.phase = phase;
  node.label = label;
  node.span.peak[static_cast<std::size_t>(phase)] = 0;
  nodes_.push_back(node);
  return static_cast<NodeId>(nodes_.size() - 1);
}

NodeId Program::sequence(const char* label, std::span<const NodeId> parts) {
  Node node;
  node.kind = NodeKind::kSequence;
  node.label = label;
  node.begin = static_cast<std::int32_t>(children_.size());
  for (NodeId part : parts) {
    if (part == empty()) continue;
    children_.push_back(part);
    node.span = concatenate(node.span, span(part));
  }
  node.end = static_cast<std::int32_t>(children_.size());
  if (node.begin == node.end) return empty();
  if (node.end == node.begin + 1 && *label == '\0') {
    children_.pop_back();
    return *std::find_if(parts.begin(), parts.end(), [&](NodeId part) { return part != empty(); });
  }
  nodes_.push_back(node);
  return static_cast<NodeId>(nodes_.size() - 1);
}

NodeId Program::repeat(const char* label, NodeId body, std::int64_t times) {
  if (times <= 0 || body == empty()) return empty();
  Node node;
  node.kind = NodeKind::kRepeat;
  node.label = label;
  node.begin = static_cast<std::int32_t>(children_.size());
  children_.push_back(body);
  node.end = static_cast<std::int32_t>(children_.size());
  node.times = times;
  node.span = steelyard::repeat(span(body), times);
  nodes_.push_back(node);
  return static_cast<NodeId>(nodes_.size() - 1);
}

std::span<const Event> Program::events(const Node& tape) const {
  return {events_.data() + tape.begin, static_cast<std::size_t>(tape.end - tape.begin)};
}

std::span<const NodeId> Program::children(const Node& node) const {
  return {children_.data() + node.begin, static_cast<std::size_t>(node.end - node.begin)};
}

}  // namespace steelyard
