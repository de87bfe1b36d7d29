#include "ledger/crest.h"

namespace steelyard {

namespace {

std::int64_t sum(std::int64_t a, std::int64_t b) { return (Checked(a) + Checked(b)).value(); }
std::int64_t product(std::int64_t a, std::int64_t b) { return (Checked(a) * Checked(b)).value(); }

Crest::Bytes plain(const Piles& piles) {
  Crest::Bytes bytes{};
  for (std::size_t pile = 0; pile < kPileCount; ++pile)
    bytes[pile] = piles.bytes[pile].value().value();
  return bytes;
}

void add(Crest::Bytes& sum, const Crest::Bytes& bytes) {
  for (std::size_t pile = 0; pile < bytes.size(); ++pile) sum[pile] += bytes[pile];
}

Crest::Bytes times(const Crest::Bytes& bytes, std::int64_t count) {
  Crest::Bytes all;
  for (std::size_t pile = 0; pile < bytes.size(); ++pile) all[pile] = bytes[pile] * count;
  return all;
}

}  // namespace

Piles piles_at(const Crest& crest) {
  Piles piles;
  for (std::size_t pile = 0; pile < kPileCount; ++pile)
    piles.bytes[pile] = Bytes(crest.piles[pile]);
  return piles;
}

Crest crest_of(const Program& program, NodeId node) {
  const Span& span = program.span(node);
  Crest crest;
  crest.net = plain(span.net);
  crest.change = span.change;
  for (std::size_t phase = 0; phase < kPhaseCount; ++phase) {
    if (span.peak[phase] <= crest.height) continue;
    crest.height = span.peak[phase];
    crest.phase = static_cast<Phase>(phase);
  }
  if (crest.height != kNoPeak) crest.piles = plain(piles_at_peak(program, node, crest.phase));
  return crest;
}

Crest crest_of(const Program& program, Phase phase, std::span<const Event> events) {
  Crest crest;
  if (events.empty()) return crest;
  crest.phase = phase;
  crest.height = 0;
  for (const Event& event : events) {
    const Slot& slot = program.slot_at(event.slot);
    const std::int64_t bytes = product(slot.bytes.value().value(), event.count);
    crest.net[static_cast<std::size_t>(slot.pile)] += bytes;
    crest.change = sum(crest.change, bytes);
    if (crest.change <= crest.height) continue;
    crest.height = crest.change;
    crest.piles = crest.net;
  }
  return crest;
}

Crest crest_of(Phase phase, Pile pile, std::int64_t bytes) {
  Crest crest;
  crest.net[static_cast<std::size_t>(pile)] = crest.change = crest.height = bytes;
  crest.phase = phase;
  crest.piles = crest.net;
  return crest;
}

Crest opposite(Phase phase, const Crest& held) {
  Crest crest;
  crest.net = times(held.net, -1);
  crest.change = -held.change;
  crest.height = 0;
  crest.phase = phase;
  return crest;
}

void join(Crest& first, const Crest& second) {
  if (second.height != kNoPeak) {
    const std::int64_t height = sum(first.change, second.height);
    if (height > first.height || (height == first.height && second.phase < first.phase)) {
      first.height = height;
      first.phase = second.phase;
      first.piles = second.piles;
      add(first.piles, first.net);
    }
  }
  add(first.net, second.net);
  first.change = sum(first.change, second.change);
}

Crest repeated(const Crest& body, std::int64_t count) {
  if (count <= 0) return {};
  Crest result = body;
  if (count == 1) return result;
  result.net = times(body.net, count);
  result.change = product(body.change, count);
  // Where rounds add, the last one stands highest, else the first.
  if (body.height == kNoPeak || body.change <= 0) return result;
  result.height = sum(body.height, product(body.change, count - 1));
  result.piles = times(body.net, count - 1);
  add(result.piles, body.piles);
  return result;
}

CrestLine::Part CrestLine::of(NodeId node) {
  const auto at = static_cast<std::size_t>(node);
  if (known_.size() <= at) known_.resize(std::max(program_.node_count(), at + 1), nullptr);
  if (known_[at] == nullptr) known_[at] = &of_nodes_.emplace_back(crest_of(program_, node));
  return known_[at];
}

CrestLine::Part CrestLine::sequence(const char*, std::span<const Part> parts) {
  Crest& all = made_.emplace_back();
  for (const Part part : parts) join(all, *part);
  return &all;
}

}  // namespace steelyard
