#include "allocator/replay_program.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "allocator/device_lag.h"
#include "allocator/earlier_steps.h"
#include "allocator/played_slots.h"

namespace steelyard {
namespace {

class Player {
 public:
  Player(const Program& program, const AllocatorSettings& settings, const DeviceMemory& device,
         const std::vector<SlotTensors>& tensors, const ReplayLimits& limits,
         ProgramWatcher* watcher, const LaunchQueue& queue, const MicroBatchLengths& lengths)
      : program_(program),
        played_(&program),
        lengths_(lengths),
        allocator_(settings, device),
        limits_(limits),
        watcher_(watcher),
        lag_(queue),
        // Ages of cached blocks are part of the state where garbage is collected, and never repeat.
        may_skip_(watcher == nullptr &&
                  (!settings.memory_fraction || settings.garbage_collection_threshold == 0)) {
    if (watcher_ != nullptr) allocator_.record_history(&history_);
    slots_ = played_slots(program, tensors, queue);
    sizes_.emplace_back(program, tensors);
    if (!lengths_.empty())
      for (const MicroBatchLengths::OfLength& one : lengths_.lengths)
        sizes_.emplace_back(*one.program, *one.tensors);
    sizes_played_ = &sizes_.front();
  }

  ProgramReserve play(const StepPlan& plan) && {
    if (limits_.reserved < ReplayLimits::kNoLimit && may_be_cut(plan))
      limits_.reserved = ReplayLimits::kNoLimit;
    begin_step(0);
    for (NodeId node : plan.first) walk(node);
    result_.first_pass = result_.phases;
    note_step();
    compares_steps_ = may_skip_ && !limits_.whole_steps && lengths_.empty();
    std::vector<StateDigest> seen = {digest()};
    for (int step = 0; step < limits_.steps && !stopped_ && !result_.settled; ++step) {
      begin_step(step + 1);
      for (NodeId node : plan.step) walk(node);
      if (result_.settled) break;
      note_step();
      if (!lengths_.empty()) continue;  // another step has other lengths
      const StateDigest now = digest();
      result_.settled = !stopped_ && has(seen, now);
      seen.push_back(now);
    }
    if (result_.settled && stopped_) return std::move(result_);  // in the midst of a step
    if (result_.is_over) return std::move(result_);
    result_.played_events = result_.events;
    result_.statistics = allocator_.statistics();
    if (!limits_.whole_steps) return std::move(result_);
    result_.segments = allocator_.segments();
    result_.fragmentation = fragmentation_of(result_.segments);
    return std::move(result_);
  }

 private:
  // Whether the replay may meet the limit of events before it ends. Which rounds of a repeat are left over after those that
  // are played is not known before; they are fewer than those.
  bool may_be_cut(const StepPlan& plan) const {
    if (!lengths_.empty()) return true;
    double events = 0;
    for (const NodeId node : plan.first) events += most_events(node);
    for (const NodeId node : plan.step) events += most_events(node) * limits_.steps;
    return events > static_cast<double>(limits_.events);
  }
  double most_events(NodeId id) const {
    const Node& node = program_.node(id);
    double events = 0;
    if (node.kind == NodeKind::kTape) {
      for (const Event& event : program_.events(node))
        events += std::abs(static_cast<double>(event.count)) *
                  static_cast<double>(sizes_played_->of(event.slot).size());
      return events;
    }
    for (const NodeId child : program_.children(node)) events += most_events(child);
    if (node.kind == NodeKind::kSequence) return events;
    const bool is_limited = node.span.change == 0 && node.times > 2;
    const double rounds =
        is_limited ? 2 * static_cast<double>(limits_.rounds) : static_cast<double>(node.times);
    return events * std::min(rounds, static_cast<double>(node.times));
  }

  void walk(NodeId id) {
    const Node& node = program_.node(id);
    switch (node.kind) {
      case NodeKind::kTape:
        return play_tape(id);
      case NodeKind::kRepeat:
        return play_repeat(node);
      case NodeKind::kSequence:
        break;
    }
    const std::int64_t outer = micro_batch_;
    const std::string_view label = node.label;
    if (label == "forward") micro_batch_ = ++forwards_;
    if (label == "backward") micro_batch_ = ++backwards_;
    if (micro_batch_ != outer) play_length_of(micro_batch_);
    enter(node, 0);
    for (NodeId child : program_.children(node)) {
      if (result_.settled) break;
      walk(child);
      compare_with_earlier_steps();
    }
    leave();
    if (micro_batch_ != outer) play_length_of(outer);
    micro_batch_ = outer;
  }

  // From here on the micro-batch is this one; 0: none.
  void play_length_of(std::int64_t micro_batch) {
    if (lengths_.empty()) return;
    std::size_t index = 0;
    if (micro_batch > 0)
      index = 1 + lengths_.order[static_cast<std::size_t>(micro_batch - 1) % lengths_.order.size()];
    played_ = index == 0 ? &program_ : lengths_.lengths[index - 1].program;
    sizes_played_ = &sizes_[index];
  }

  void play_repeat(const Node& node) {
    const NodeId body = program_.children(node).front();
    const bool of_micro_batches = !lengths_.empty() && micro_batch_ == 0;
    const bool returns = may_skip_ && !of_micro_batches && node.times > 2 && node.span.change == 0;
    // Which of its rounds are played hangs on those before them.
    const bool outer = std::exchange(compares_steps_, compares_steps_ && !returns);
    play_rounds(node, body, returns);
    compares_steps_ = outer;
  }

  void play_rounds(const Node& node, NodeId body, bool returns) {
    std::vector<StateDigest> seen;
    for (std::int64_t round = 0; round < node.times && !stopped_; ++round) {
      enter(node, round);
      walk(body);
      leave();
      if (!returns) {
        compare_with_earlier_steps();
        continue;
      }
      const StateDigest now = digest();
      const auto same = std::find(seen.begin(), seen.end(), now);
      if (same != seen.end()) {
        const std::int64_t left = (node.times - 1 - round) % (seen.end() - same);
        for (std::int64_t last = 0; last < left && !stopped_; ++last) walk(body);
        return;
      }
      seen.push_back(now);
      if (round + 1 >= limits_.rounds) {
        result_.shortened = result_.shortened || round + 1 < node.times;
        return;
      }
    }
  }

  void play_tape(NodeId id) {
    const Node& tape = played_->node(id);
    PhaseReserve& phase = result_.phases[static_cast<std::size_t>(tape.phase)];
    phase.occurs = true;
    note(phase);
    enter(tape, 0);
    const std::span<const Event> events = played_->events(tape);
    const std::vector<SlotId>& passed_on = passed_on_by(id, events);
    for (const SlotId slot : passed_on) note_oldest(slot);
    lag_.begin_tape(id);
    for (std::size_t i = 0; i < events.size() && !stopped_;) {
      if (const std::size_t parts = joined_from(events, i, slots_); parts > 0) {
        free_what_went();
        appear_joined(events.subspan(i, parts), tape.phase);
        i += parts;
        continue;
      }
      const std::span<const Event> group = events.subspan(i, woven_from(events, i, slots_));
      const std::int32_t count = group.front().count;
      if (count > 0) free_what_went();
      for (std::int32_t instance = 0; instance < count && !stopped_; ++instance)
        appear(group, tape.phase);
      for (std::int32_t instance = 0; instance > count; --instance) go(group.front().slot);
      if (watcher_ != nullptr) free_what_went();
      tell(group.front().slot, tape.phase);
      i += group.size();
      lag_.played(i, events.size(), allocator_);
    }
    for (const SlotId slot : passed_on) played(slot).oldest.reset();
    lag_.end_tape(allocator_);
    free_what_went();
    leave();
  }

  // So far.
  EarlierSteps::Counted counted() const {
    const AllocatorStatistics& now = allocator_.statistics();
    return {result_.events, now.device_allocations + now.device_frees + now.retries};
  }
  // Whether everything stands as it stood here in an earlier step: then what follows in this step, and in all steps, is known.
  void compare_with_earlier_steps() {
    if (!compares_steps_ || stopped_ || !earlier_steps_.compares_here(result_.events)) return;
    const auto same = earlier_steps_.same_as(digest(), counted());
    if (!same || result_.events + same->events_left > limits_.events) return;
    result_.played_events = result_.events;
    result_.events += same->events_left;
    result_.statistics = allocator_.statistics();
    result_.reserved_after.push_back(result_.reserved_after[same->step]);
    result_.settled = stopped_ = true;
  }

  // Slots that a tape makes and frees alike.
  const std::vector<SlotId>& passed_on_by(NodeId tape, std::span<const Event> events) {
    const auto known = passed_on_.find(tape);
    if (known != passed_on_.end()) return known->second;
    std::map<SlotId, std::pair<std::int64_t, std::int64_t>> counts;  // net, made
    for (const Event& event : events) {
      counts[event.slot].first += event.count;
      if (event.count > 0) counts[event.slot].second += event.count;
    }
    std::vector<SlotId> slots;
    for (const auto& [slot, count] : counts)
      if (count.first == 0 && count.second > 0) slots.push_back(slot);
    return passed_on_.emplace(tape, std::move(slots)).first->second;
  }
  // Where one of this micro-batch is there when the tape begins, it is what goes first.
  void note_oldest(SlotId id) {
    PlayedSlot& slot = played(id);
    const std::size_t tensors = sizes_played_->of(id).size();
    if (micro_batch_ > 0 && !slot.live.empty() && slot.live.size() >= tensors &&
        slot.live.back().micro_batch == micro_batch_)
      slot.oldest = slot.live.size() - tensors;
  }

  void begin_step(int step) {
    earlier_steps_.begin_step(step, counted());
    // A stage that nothing is trained on runs backward for none or few of them.
    forwards_ = backwards_ = std::max(forwards_, backwards_);
    lag_.begin_step(step, allocator_);
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

  PlayedSlot& played(SlotId id) { return slots_[static_cast<std::size_t>(id)]; }
  const PlayedSlot& played(SlotId id) const { return slots_[static_cast<std::size_t>(id)]; }

  // The first part's first instance has the block.
  void appear_joined(std::span<const Event> parts, Phase phase) {
    Bytes sum{};
    for (const Event& part : parts) sum += program_.slot_at(part.slot).bytes * Checked(part.count);
    const SlotId first = parts.front().slot;
    appear(first, {sum, 0}, phase);
    tell(first, phase);
    std::size_t has_block = 1;
    for (const Event& part : parts) {
      PlayedSlot& slot = played(part.slot);
      const std::size_t instances =
          sizes_played_->of(part.slot).size() * static_cast<std::size_t>(part.count);
      for (std::size_t part_of = std::exchange(has_block, 0); part_of < instances; ++part_of)
        slot.live.appear({kNoBlock, micro_batch_});
      slot.settled.reset();
    }
  }

  // One instance of each slot.
  void appear(std::span<const Event> group, Phase phase) {
    if (group.size() == 1) {
      const SlotId id = group.front().slot;
      for (const SlotTensors::Tensor& tensor : sizes_played_->of(id)) appear(id, tensor, phase);
      return;
    }
    std::vector<std::size_t> next(group.size());
    bool left = true;
    for (std::int32_t place = 0; left; ++place) {
      left = false;
      for (std::size_t i = 0; i < group.size(); ++i) {
        const SlotId id = group[i].slot;
        const std::span<const SlotTensors::Tensor> tensors = sizes_played_->of(id);
        for (; next[i] < tensors.size() && tensors[next[i]].place <= place; ++next[i]) {
          appear(id, tensors[next[i]], phase);
          tell(id, phase);
        }
        left = left || next[i] < tensors.size();
      }
    }
  }

  void appear(SlotId id, const SlotTensors::Tensor& tensor, Phase phase) {
    if (stopped_) return;
    if (++result_.events > limits_.events) {
      result_.cut = true;
      stopped_ = true;
      return;
    }
    PlayedSlot& slot = played(id);
    if (slot.empties_cache) allocator_.empty_cache();
    const auto block = allocator_.allocate(tensor.bytes, slot.stream);
    if (!block) {
      result_.out_of_memory = block.error();
      result_.refused = id;
      stopped_ = true;
      return;
    }
    slot.live.appear({*block, micro_batch_});
    slot.settled.reset();
    if (allocator_.statistics().all.reserved.bytes.current > limits_.reserved)
      result_.is_over = stopped_ = true;
    note(result_.phases[static_cast<std::size_t>(phase)]);
  }

  void go(SlotId id) {
    PlayedSlot& slot = played(id);
    LiveTensors& live = slot.live;
    slot.settled.reset();
    const std::size_t tensors = sizes_played_->of(id).size();
    for (std::size_t tensor = 0; tensor < tensors && !live.empty(); ++tensor) {
      std::size_t which = 0;
      if (!slot.oldest_goes)
        which =
            slot.oldest && *slot.oldest < live.size() ? *slot.oldest : live.newest_of(micro_batch_);
      const BlockIndex freed = live[which].block;
      if (freed != kNoBlock && slot.recorded && lag_.is_behind())
        lag_.free_later(freed, allocator_);
      else if (freed != kNoBlock)
        went_.push_back(freed);
      live.erase(which);
      ++result_.events;
    }
  }

  // From the highest address down: so the lists of free blocks grow at their ends.
  void free_what_went() {
    if (went_.size() > 1)
      std::sort(went_.begin(), went_.end(), [&](BlockIndex a, BlockIndex b) {
        return allocator_.address_of(a) > allocator_.address_of(b);
      });
    for (BlockIndex block : went_) allocator_.free(block);
    went_.clear();
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

  StateDigest digest_of(std::size_t number) const {
    const PlayedSlot& slot = slots_[number];
    if (slot.settled) return *slot.settled;
    StateDigest digest;
    std::int64_t most_ahead = 0;
    for (std::size_t place = 0; place < slot.live.size(); ++place) {
      const LiveTensor& live = slot.live[place];
      if (live.block == kNoBlock) continue;
      // Of micro-batches whose backward is over none will ask any more.
      const std::int64_t ahead = std::max<std::int64_t>(0, live.micro_batch - backwards_ + 1);
      most_ahead = std::max(most_ahead, ahead);
      digest.add(StateDigest::joined({static_cast<std::uint64_t>(allocator_.address_of(live.block)),
                                      number, place, static_cast<std::uint64_t>(ahead)}));
    }
    if (most_ahead == 0) slot.settled = digest;
    return digest;
  }

  // The allocator, and which block each live instance is: what comes next depends on nothing else.
  StateDigest digest() const {
    StateDigest digest = allocator_.digest();
    for (std::size_t slot = 0; slot < slots_.size(); ++slot) digest.add(digest_of(slot));
    lag_.add_to(digest);
    return digest;
  }

  const Program& program_;
  const Program* played_;  // program_, or that of the micro-batch's length
  const MicroBatchLengths& lengths_;
  std::deque<SlotSizes> sizes_;  // of program_, then by length
  const SlotSizes* sizes_played_ = nullptr;
  CachingAllocator allocator_;
  ReplayLimits limits_;
  ProgramWatcher* watcher_;
  std::vector<HistoryEvent> history_;  // since it was told last
  DeviceLag lag_;
  bool may_skip_;
  bool stopped_ = false;
  bool compares_steps_ = false;
  EarlierSteps earlier_steps_;
  std::vector<PlayedSlot> slots_;
  std::vector<BlockIndex> went_;  // not yet handed back
  std::unordered_map<NodeId, std::vector<SlotId>> passed_on_;
  std::int64_t forwards_ = 0, backwards_ = 0;
  std::int64_t micro_batch_ = 0;  // 0: outside of forward and backward
  ProgramReserve result_;
};

}  // namespace

ProgramReserve replay_in_allocator(const Program& program, const StepPlan& plan,
                                   const AllocatorSettings& settings, const DeviceMemory& device,
                                   const std::vector<SlotTensors>& tensors,
                                   const ReplayLimits& limits, ProgramWatcher* watcher,
                                   const LaunchQueue& queue, const MicroBatchLengths& lengths) {
  return Player(program, settings, device, tensors, limits, watcher, queue, lengths).play(plan);
}

}  // namespace steelyard
