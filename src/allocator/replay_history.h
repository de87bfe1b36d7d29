// A recorded history (torch.cuda.memory._snapshot()["device_traces"]) played again: whether the simulated allocator
// does, request by request, what PyTorch did.
//
//   recorded               played
//   segment_alloc  @ A     the next segment, if one is made, is at A
//   alloc          @ A     allocate: at A?
//   free_requested @ A     the program lets go
//   free_completed @ A     the block is cached
//   segment_free   @ A     the cached segment goes back
//
// Which cached segments go back, and when, is taken from the record: it does not say whether empty_cache(), garbage
// collection or a full device asked for it. A history that began later than the process knows nothing of what was there
// before: frees of it are counted and passed over, and requests may find less cached than they did.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "allocator/caching_allocator.h"
#include "allocator/history.h"

namespace steelyard {

struct HistoryReplay {
  AllocatorStatistics statistics;  // of the simulated allocator
  Gauge recorded_reserved;         // from the record's own segments
  std::int64_t requests = 0;
  std::int64_t unknown = 0;  // events of what was there before the history began
  std::int64_t differences = 0;
  std::string
      first_difference;  // "event 17: alloc at 0x7f00 was played at 0x7e00"; empty if there is none
};

// `device` gives expandable ranges their length; nothing is refused for want of memory.
HistoryReplay replay_history(std::span<const HistoryEvent> events,
                             const AllocatorSettings& settings = {},
                             const DeviceMemory& device = {});

}  // namespace steelyard
