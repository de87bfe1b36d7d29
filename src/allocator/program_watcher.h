// Sees a program being played through the allocator: where it is, and what the allocator did for each tensor.
//
//   step 0
//     enter  "forward"
//       enter  "layer", round 3 of 32
//         played  slot 17 (mlp gate output): segment_alloc, alloc
//         played  slot 17: free_requested, free_completed
//       leave
//     leave
//
// A watched program is played round by round: nothing is skipped because it would repeat.
#pragma once

#include <cstdint>
#include <span>

#include "allocator/history.h"
#include "ledger/program.h"

namespace steelyard {

class ProgramWatcher {
 public:
  virtual ~ProgramWatcher() = default;
  // 0: the first step with what comes before it; then the later ones.
  virtual void begin_step(int step) = 0;
  // Of a repeat each round is entered on its own.
  virtual void enter(const Node& node, std::int64_t round) = 0;
  virtual void leave() = 0;
  virtual void played(SlotId slot, Phase phase, std::span<const HistoryEvent> events) = 0;
};

}  // namespace steelyard
