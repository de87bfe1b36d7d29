// The tape of one rank, folded: allocations and frees, in order, with repeats.
//
//   step
//     repeat x 8            micro-batches
//       forward             +input_ids ...
//       repeat x 32         +x32 +variance -variance ... (the tape of one layer)
//       backward ...
//     optimizer             +square_roots -square_roots
//
// A tape is a run of events; a sequence joins programs; a repeat runs one many times. Every node knows its span:
// (net change, highest point above its start). Spans of sequences and repeats follow from their parts in closed form,
// so 126 layers and 512 micro-batches cost a handful of additions and the peak stays exact. `replay` (ledger/replay.h)
// walks every single event instead and must find the same numbers.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <span>
#include <vector>

#include "ledger/pile.h"
#include "quantity/quantity.h"

namespace steelyard {

using SlotId = std::int32_t;
using NodeId = std::int32_t;

// One kind of tensor: every instance has these bytes.
struct Slot {
  const char* owner = "";  // "mlp", "loss", "optimizer"; lives as long as the program
  const char* name = "";   // "gate_proj output"
  const char* rule = "";   // id in data/rules.json
  Pile pile = Pile::kTemporary;
  Bytes bytes{};  // as allocated: rounded to 512 bytes
};

// `count` instances of a slot appear (positive) or go (negative).
struct Event {
  SlotId slot = 0;
  std::int32_t count = 0;
};
inline void append(std::vector<Event>& events, const std::vector<Event>& more) {
  events.insert(events.end(), more.begin(), more.end());
}

constexpr std::int64_t kNoPeak = std::numeric_limits<std::int64_t>::min() / 4;

// What a stretch of tape does, seen from its start.
struct Span {
  Piles net;                // change from start to end
  std::int64_t change = 0;  // net.total()
  std::array<std::int64_t, kPhaseCount>
      peak;  // highest point above the start within each phase; kNoPeak if the phase does not occur

  Span() { peak.fill(kNoPeak); }
  std::int64_t highest() const;
};
Span concatenate(const Span& first, const Span& second);
Span repeat(const Span& body, std::int64_t times);

enum class NodeKind : std::uint8_t { kTape, kSequence, kRepeat };

struct Node {
  NodeKind kind = NodeKind::kTape;
  Phase phase = Phase::kForward;    // of a tape
  const char* label = "";           // "layer", "micro-batch", "loss"
  std::int32_t begin = 0, end = 0;  // events of a tape; children of a sequence or (one) of a repeat
  std::int64_t times = 1;
  Span span;
};

class Program {
 public:
  Program();
  SlotId slot(const Slot& slot);
  const Slot& slot_at(SlotId id) const { return slots_[static_cast<std::size_t>(id)]; }
  // The pile of a slot that no tape has used yet: known only when its readers are.
  void sort_into(SlotId id, Pile pile) { slots_[static_cast<std::size_t>(id)].pile = pile; }
  std::size_t slot_count() const { return slots_.size(); }

  NodeId tape(Phase phase, const char* label, std::span<const Event> events);
  // A tape without events: says that `phase` is here, at the height it finds.
  NodeId moment(Phase phase, const char* label);
  NodeId sequence(const char* label, std::span<const NodeId> parts);
  NodeId sequence(const char* label, std::initializer_list<NodeId> parts) {
    return sequence(label, std::span(parts.begin(), parts.size()));
  }
  NodeId repeat(const char* label, NodeId body,
                std::int64_t times);  // times >= 0; 0 gives the empty node
  NodeId empty() const { return 0; }

  const Node& node(NodeId id) const { return nodes_[static_cast<std::size_t>(id)]; }
  const Span& span(NodeId id) const { return node(id).span; }
  std::span<const Event> events(const Node& tape) const;
  std::span<const NodeId> children(const Node& node) const;
  std::size_t node_count() const { return nodes_.size(); }
  // Slots stay.
  void forget_nodes();

 private:
  std::vector<Slot> slots_;
  std::vector<Event> events_;
  std::vector<NodeId> children_;
  std::vector<Node> nodes_;
};

// The first moment at which `phase` (within the program `root`) stands highest.
struct PeakMoment {
  std::int64_t height = kNoPeak;    // above the start of `root`
  Piles piles;                      // change since the start of `root`
  std::vector<std::int64_t> alive;  // instances by slot, change since the start of `root`
  struct Step {
    const char* label;
    std::int64_t index;
    std::int64_t times;
  };
  std::vector<Step> path;  // "micro-batch" 1 of 8, "layer" 32 of 32
  SlotId allocating = -1;  // the slot whose allocation made the peak
};
PeakMoment find_peak(const Program& program, NodeId root, Phase phase);
// Instances by slot after the whole of `root`.
std::vector<std::int64_t> net_instances(const Program& program, NodeId root);
// Piles alone at that moment; cheaper than find_peak.
Piles piles_at_peak(const Program& program, NodeId root, Phase phase);

}  // namespace steelyard
