// What is there of each slot while a program is played through the allocator: its blocks, oldest first, and how they appear.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "allocator/gap_list.h"
#include "allocator/replay_program.h"
#include "allocator/slot_streams.h"

namespace steelyard {

struct LiveTensor {
  BlockIndex block = kNoBlock;
  std::int64_t micro_batch = 0;
};

// Of one slot, oldest first.
class LiveTensors : public GapList<LiveTensor> {
 public:
  void appear(const LiveTensor& tensor) {
    by_micro_batch_ = empty() || (by_micro_batch_ && back().micro_batch <= tensor.micro_batch);
    push_back(tensor);
  }
  // Of this micro-batch the newest; where it has none, the newest of all. Of one at least.
  std::size_t newest_of(std::int64_t micro_batch) const {
    std::size_t newest = size() - 1;
    if ((*this)[newest].micro_batch == micro_batch) return newest;
    if (by_micro_batch_) {
      std::size_t first = 0,
                  behind = size();  // the first of a later micro-batch stands between them
      while (first < behind) {
        const std::size_t middle = (first + behind) / 2;
        if ((*this)[middle].micro_batch <= micro_batch)
          first = middle + 1;
        else
          behind = middle;
      }
      return first > 0 && (*this)[first - 1].micro_batch == micro_batch ? first - 1 : newest;
    }
    for (std::size_t at = newest; at-- > 0;)
      if ((*this)[at].micro_batch == micro_batch) return at;
    return newest;
  }

 private:
  bool by_micro_batch_ = true;  // none stands behind one of a later micro-batch
};

// What each slot of a program is made of.
class SlotSizes {
 public:
  SlotSizes(const Program& program, const std::vector<SlotTensors>& tensors) : tensors_(&tensors) {
    alone_.resize(program.slot_count());
    for (std::size_t slot = 0; slot < alone_.size(); ++slot)
      alone_[slot] = {program.slot_at(static_cast<SlotId>(slot)).bytes};
  }
  std::span<const SlotTensors::Tensor> of(SlotId id) const {
    const auto slot = static_cast<std::size_t>(id);
    if (slot < tensors_->size() && !(*tensors_)[slot].tensors.empty())
      return (*tensors_)[slot].tensors;
    return {&alone_[slot], 1};
  }

 private:
  const std::vector<SlotTensors>* tensors_;
  std::vector<SlotTensors::Tensor> alone_;
};

struct PlayedSlot {
  std::int32_t woven = 0, joined = 0;
  StreamId stream = 0;
  bool recorded = false;
  bool empties_cache = false;
  bool oldest_goes = false;
  LiveTensors live;
  std::optional<std::size_t> oldest;  // of `live`: goes first while a tape passes the slot on
  // Of `live`, while it stays as it is and none of its micro-batches is ahead any more.
  mutable std::optional<StateDigest> settled;
};

// How many events from `first` on appear tensor by tensor.
inline std::size_t woven_from(std::span<const Event> events, std::size_t first,
                              const std::vector<PlayedSlot>& slots) {
  const auto woven_of = [&](const Event& event) {
    return slots[static_cast<std::size_t>(event.slot)].woven;
  };
  const Event& begin = events[first];
  const std::int32_t woven = woven_of(begin);
  if (woven == 0 || begin.count <= 0) return 1;
  std::size_t last = first + 1;
  while (last < events.size() && woven_of(events[last]) == woven &&
         events[last].count == begin.count)
    ++last;
  return last - first;
}

// How many events from `first` on are parts of one tensor that appears.
inline std::size_t joined_from(std::span<const Event> events, std::size_t first,
                               const std::vector<PlayedSlot>& slots) {
  const auto joined_of = [&](const Event& event) {
    return slots[static_cast<std::size_t>(event.slot)].joined;
  };
  const std::int32_t joined = joined_of(events[first]);
  if (joined == 0) return 0;
  std::size_t last = first;
  while (last < events.size() && events[last].count > 0 && joined_of(events[last]) == joined)
    ++last;
  return last - first;
}

// Of a program's slots, before anything of them is there.
inline std::vector<PlayedSlot> played_slots(const Program& program,
                                            const std::vector<SlotTensors>& tensors,
                                            const LaunchQueue& queue) {
  std::vector<PlayedSlot> slots(program.slot_count());
  for (std::size_t slot = 0; slot < slots.size(); ++slot) {
    const Slot& what = program.slot_at(static_cast<SlotId>(slot));
    slots[slot].stream = stream_of(what);
    slots[slot].empties_cache = empties_cache(what);
    if (slot < tensors.size()) {
      slots[slot].woven = tensors[slot].woven;
      slots[slot].joined = tensors[slot].joined;
      slots[slot].oldest_goes = tensors[slot].oldest_goes;
      slots[slot].recorded = queue.depth > 0 && tensors[slot].exchanged != Exchanged::kNo &&
                             tensors[slot].exchanged >= queue.recorded;
    }
  }
  return slots;
}

}  // namespace steelyard
