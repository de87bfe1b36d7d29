// A recorded history played to the moment that matters: the failure, or the highest point, on each device.
//
//   device 0   failure at event 2,780 of 3,104
//     live       70.4 GiB: 4.7 of before the history, 65.7 of it
//     reserved   76.4 GiB: 5.98 free in it, the largest gap 1.2
//     blocks     each with the event at which it was born, and the one at which it dies later
//
// The segments of the file are the state when it was written, which is after the failure; the state at the failure follows
// from the events. What was live before the first event (a ring forgets, recording may begin late) follows from both: from
// blocks that are there in the end and were never born, and from frees without a birth. The two ways to count it must
// agree; where they do not, `consistent` is false and nothing more may be concluded.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "evidence/memory_history.h"

namespace steelyard {

constexpr std::int64_t kBeforeHistory = -1, kNeverSeen = -1;

struct LiveBlock {
  std::int64_t address = 0, size = 0;  // as requested
  std::int64_t born = kBeforeHistory;  // event
  std::int64_t dies = kNeverSeen;      // event after the moment
  std::int64_t released =
      kNeverSeen;  // event of free_requested at or before the moment: it waits for a stream
  std::int32_t stack = 0;
  std::int16_t stream = 0;
  bool private_pool = false;
  std::uint8_t category = 0;
};

struct DeviceMoment {
  enum class Kind : std::uint8_t { kFailure, kPeak, kState };
  Kind kind = Kind::kState;
  std::int64_t device = 0;
  std::size_t event = 0;  // the failure, or the event that made the peak
  std::int64_t time = 0;
  std::int64_t tried = 0, device_free = 0;  // of a failure
  std::int64_t failures = 0;                // all of the history
  std::int64_t live = 0;                    // requested bytes
  std::int64_t base = 0;                    // of them before the history, at its first event
  std::int64_t reserved = 0;
  std::int64_t largest_gap = 0;  // in segments of the large pool
  std::int64_t rounding = 0;     // block sizes above requests
  std::int64_t peak = 0;         // highest `live` of the history
  std::size_t peak_event = 0;
  std::int64_t peak_reserved = 0;
  std::int64_t final_live = 0, final_reserved = 0;
  std::int64_t lost_births = 0, lost_bytes = 0;  // frees whose birth is not in the history
  std::int64_t cache_flushes = 0;                // bursts of segment_free
  bool consistent = true;
  std::string why;  // not consistent
  std::vector<LiveBlock> blocks;
};

// One for each device that has ever held memory, the one that failed last (else the fullest) first.
std::vector<DeviceMoment> replay_to_moment(const MemoryHistory& history);

// The live blocks after event `event` of a device, for questions of other moments.
std::vector<LiveBlock> live_blocks_after(const MemoryHistory& history, std::size_t device,
                                         std::int64_t event);

}  // namespace steelyard
