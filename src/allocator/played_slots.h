// What is there of each slot while a program is played through the allocator: its blocks, oldest first, and how they appear.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "allocator/replay_program.h"
#include "allocator/slot_streams.h"

namespace steelyard {

struct LiveTensor {
  BlockIndex block = kNoBlock;
  std::int64_t micro_batch = 0;
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
  std::vector<LiveTensor> live;       // oldest first
  std::optional<std::size_t> oldest;  // of `live`: goes first while a tape passes the slot on
  // Of `live`, while it stays as it is and none of its micro-batches is ahead any more.
  mutable std::optional<StateDigest> settled;
};

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
