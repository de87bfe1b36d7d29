// How far the device is behind its host, and what it has not given back for that.
//
//   lag.begin_step(2, allocator)      the device has caught up; from the second step on it falls behind again
//   lag.begin_tape(id)                so many launches follow
//   lag.free_later(block, allocator)  a collective used it: it comes back when the device has passed the collective
//   lag.played(3, 8, allocator)       three of eight events: what the device has passed by now comes back
//
// A launch queue of some depth (allocator/replay_program.h, rule 3).
#pragma once

#include <deque>

#include "allocator/caching_allocator.h"
#include "allocator/replay_program.h"
#include "ledger/program.h"

namespace steelyard {

class DeviceLag {
 public:
  explicit DeviceLag(const LaunchQueue& queue) : queue_(queue) {}

  bool is_behind() const { return behind_ > 0; }
  void begin_step(int step, CachingAllocator& allocator);
  void begin_tape(NodeId tape);
  void end_tape(CachingAllocator& allocator);
  void played(std::size_t events, std::size_t of, CachingAllocator& allocator);
  void free_later(BlockIndex block, CachingAllocator& allocator);
  // What it waits for, and how long still.
  void add_to(StateDigest& digest) const;

 private:
  // Freed, but the device has not passed: when, in launches, and where. The allocator may have had to wait for them.
  struct Awaited {
    std::int64_t launched = 0, address = 0;
  };
  void catch_up(CachingAllocator& allocator);

  LaunchQueue queue_;
  std::deque<Awaited> awaited_;
  std::int64_t launched_ = 0, behind_ = 0;
  std::int64_t before_tape_ = 0, of_tape_ = 0;  // launches
};

}  // namespace steelyard
