#include "allocator/replay_program.h"

#include <algorithm>
#include <span>
#include <string_view>

#include "allocator/slot_streams.h"

namespace steelyard {
namespace {

class Player {
 public:
  Player(const Program& program, const AllocatorSettings& settings, const DeviceMemory& device,
         const SlotParts& parts, const ReplayLimits& limits, ProgramWatcher* watcher)
      : program_(program),
        allocator_(settings, device),
        limits_(limits),
        watcher_(watcher),
        // Ages of cached blocks are part of the state where garbage is collected, and never repeat.
        may_skip_(watcher == nullptr &&
                  (!settings.memory_fraction || settings.garbage_collection_threshold == 0)) {
    if (watcher_ != nullptr) allocator_.record_history(&history_);
    slots_.resize(program.slot_count());
    for (std::size_t slot = 0; slot < slots_.size(); ++slot) {
      const Slot& what = program.slot_at(static_cast<SlotId>(slot));
      slots_[slot].stream = stream_of(what);
      slots_[slot].parts = {what.bytes};
      if (slot < parts.size() && !parts[slot].empty()) slots_[slot].parts = parts[slot];
    }
  }

  ProgramReserve play(const StepPlan& plan) && {
    begin_step(0);
    for (NodeId node : plan.first) walk(node);
    note_step();
    std::vector<StateDigest> seen = {digest()};
    for (int step = 0; step < limits_.steps && !stopped_ && !result_.settled; ++step) {
      begin_step(step + 1);
      for (NodeId node : plan.step) walk(node);
      note_step();
      result_.settled = !stopped_ && has(seen, digest());
      seen.push_back(digest());
    }
    result_.statistics = allocator_.statistics();
    result_.segments = allocator_.segments();
    result_.fragmentation = fragmentation_of(result_.segments);
    return std::move(result_);
  }

 private:
  struct Live {
    BlockIndex block = kNoBlock;
    std::int64_t micro_batch = 0;
  };
  struct PlayedSlot {
    std::vector<Bytes> parts;
    StreamId stream = 0;
    std::vector<Live> live;  // oldest first
  };

  void walk(NodeId id) {
    const Node& node = program_.node(id);
    switch (node.kind) {
      case NodeKind::kTape:
        return play_tape(node);
      case NodeKind::kRepeat:
        return play_repeat(node);
      case NodeKind::kSequence:
        break;
    }
    const std::int64_t outer = micro_batch_;
    const std::string_view label = node.label;
    if (label == "forward") micro_batch_ = ++forwards_;
    if (label == "backward") micro_batch_ = ++backwards_;
    enter(node, 0);
    for (NodeId child : program_.children(node)) walk(child);
    leave();
    micro_batch_ = outer;
  }

  void play_repeat(const Node& node) {
    const NodeId body = program_.children(node).front();
    const bool returns = may_skip_ && node.times > 2 && node.span.change == 0;
    std::vector<StateDigest> seen;
    for (std::int64_t round = 0; round < node.times && !stopped_; ++round) {
      enter(node, round);
      walk(body);
      leave();
      if (!returns) continue;
      const StateDigest now = digest();
      const auto same = std::find(seen.begin(), seen.end(), now);
      if (same != seen.end()) {
        const std::int64_t left = (node.times - 1 - round) % (seen.end() - same);
        for (std::int64_t last = 0; last < left && !stopped_; ++last) walk(body);
        return;
      }
      seen.push_back(now);
    }
  }

  void play_tape(const Node& tape) {
    PhaseReserve& phase = result_.phases[static_cast<std::size_t>(tape.phase)];
    phase.occurs = true;
    note(phase);
    enter(tape, 0);
    for (const Event& event : program_.events(tape)) {
      if (stopped_) break;
      PlayedSlot& slot = slots_[static_cast<std::size_t>(event.slot)];
      for (std::int32_t i = 0; i < event.count && !stopped_; ++i) appear(slot, event.slot, phase);
      for (std::int32_t i = 0; i > event.count; --i) go(slot);
      tell(event.slot, tape.phase);
    }
    leave();
  }

  void begin_step(int step) {
    if (watcher_ != nullptr) watcher_->begin_step(step);
  }
  void enter(const Node& node, std::int64_t round) {
    if (watcher_ != nullptr) watcher_->enter(node, round);
  }
  void leave() {
    if (watcher_ != nullptr) watcher_->leave();
  }
  void tell(SlotId slot, Phase phase) {
    if (watcher_ == nullptr) return;
    watcher_->played(slot, phase, history_);
    history_.clear();
  }

  void appear(PlayedSlot& slot, SlotId id, PhaseReserve& phase) {
    for (Bytes bytes : slot.parts) {
      if (++result_.events > limits_.events) {
        result_.cut = true;
        stopped_ = true;
        return;
      }
      const auto block = allocator_.allocate(bytes, slot.stream);
      if (!block) {
        result_.out_of_memory = block.error();
        result_.refused = id;
        stopped_ = true;
        return;
      }
      slot.live.push_back({*block, micro_batch_});
      note(phase);
    }
  }

  void go(PlayedSlot& slot) {
    std::vector<Live>& live = slot.live;
    for (std::size_t part = 0; part < slot.parts.size() && !live.empty(); ++part) {
      auto freed = std::prev(live.end());
      if (freed->micro_batch != micro_batch_) {
        const auto own = std::find_if(live.rbegin(), live.rend(), [&](const Live& other) {
          return other.micro_batch == micro_batch_;
        });
        if (own != live.rend()) freed = std::prev(own.base());
      }
      allocator_.free(freed->block);
      live.erase(freed);
      ++result_.events;
    }
  }

  void note(PhaseReserve& phase) {
    const PoolStatistics& now = allocator_.statistics().all;
    const Bytes allocated(now.allocated.bytes.current);
    const Bytes reserved(now.reserved.bytes.current);
    if (allocated > phase.allocated || phase.reserved == Bytes{}) {
      phase.allocated = allocated;
      phase.reserved_at_peak = reserved;
    }
    phase.active = std::max(phase.active, Bytes(now.active.bytes.current));
    phase.reserved = std::max(phase.reserved, reserved);
  }

  void note_step() {
    result_.reserved_after.emplace_back(allocator_.statistics().all.reserved.bytes.current);
  }

  static bool has(const std::vector<StateDigest>& seen, const StateDigest& now) {
    return std::find(seen.begin(), seen.end(), now) != seen.end();
  }

  // The allocator, and which block each live instance is: what comes next depends on nothing else.
  StateDigest digest() const {
    StateDigest digest = allocator_.digest();
    for (std::size_t slot = 0; slot < slots_.size(); ++slot)
      for (std::size_t place = 0; place < slots_[slot].live.size(); ++place) {
        const Live& live = slots_[slot].live[place];
        if (live.block == kNoBlock) continue;
        StateDigest one;
        one.add(static_cast<std::uint64_t>(allocator_.address_of(live.block)));
        one.add(one.second ^ static_cast<std::uint64_t>(slot));
        one.add(one.second ^ static_cast<std::uint64_t>(place));
        // Of micro-batches whose backward is over none will ask any more.
        const std::int64_t ahead = std::max<std::int64_t>(0, live.micro_batch - backwards_ + 1);
        one.add(one.second ^ static_cast<std::uint64_t>(ahead));
        digest.add(one.second);
      }
    return digest;
  }

  const Program& program_;
  CachingAllocator allocator_;
  ReplayLimits limits_;
  ProgramWatcher* watcher_;
  std::vector<HistoryEvent> history_;  // since it was told last
  bool may_skip_;
  bool stopped_ = false;
  std::vector<PlayedSlot> slots_;
  std::int64_t forwards_ = 0, backwards_ = 0;
  std::int64_t micro_batch_ = 0;  // 0: outside of forward and backward
  ProgramReserve result_;
};

}  // namespace

ProgramReserve replay_in_allocator(const Program& program, const StepPlan& plan,
                                   const AllocatorSettings& settings, const DeviceMemory& device,
                                   const SlotParts& parts, const ReplayLimits& limits,
                                   ProgramWatcher* watcher) {
  return Player(program, settings, device, parts, limits, watcher).play(plan);
}

}  // namespace steelyard
