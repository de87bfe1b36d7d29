#include "ledger/replay.h"

#include <fmt/format.h>

namespace steelyard {

namespace {

class Judge {
 public:
  Judge(const Program& program, const std::vector<std::int64_t>& start) : program_(program) {
    result_.alive = start;
    result_.alive.resize(program.slot_count(), 0);
    result_.peak.fill(kNoPeak);
    for (std::size_t slot = 0; slot < result_.alive.size(); ++slot) {
      const Slot& what = program.slot_at(static_cast<SlotId>(slot));
      const Bytes bytes = what.bytes * Checked(result_.alive[slot]);
      now_[what.pile] += bytes;
      result_.height += bytes.value().value();
    }
  }

  void walk(NodeId id) {
    const Node& node = program_.node(id);
    if (node.kind == NodeKind::kTape) return play(node);
    for (std::int64_t round = 0; round < node.times; ++round)
      for (NodeId child : program_.children(node)) walk(child);
  }

  Replay result() && { return std::move(result_); }

 private:
  void play(const Node& tape) {
    const std::size_t phase = static_cast<std::size_t>(tape.phase);
    note(phase);
    for (const Event& event : program_.events(tape)) {
      const Slot& slot = program_.slot_at(event.slot);
      std::int64_t& alive = result_.alive[static_cast<std::size_t>(event.slot)];
      alive += event.count;
      if (alive < 0 && result_.fault.empty())
        result_.fault = fmt::format("freed but not alive: {} {}", slot.owner, slot.name);
      const Bytes bytes = slot.bytes * Checked(event.count);
      now_[slot.pile] += bytes;
      result_.height += bytes.value().value();
      note(phase);
      ++result_.events;
    }
  }

  void note(std::size_t phase) {
    if (result_.height <= result_.peak[phase]) return;
    result_.peak[phase] = result_.height;
    result_.piles[phase] = now_;
  }

  const Program& program_;
  Replay result_;
  Piles now_;
};

}  // namespace

Replay replay(const Program& program, NodeId root, const std::vector<std::int64_t>& start) {
  Judge judge(program, start);
  judge.walk(root);
  return std::move(judge).result();
}

}  // namespace steelyard
