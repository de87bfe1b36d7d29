// What the allocator must reserve for the temporaries of a step beyond the blocks that forward and backward have left.
//
//   cached   2 GiB at most        step   +4 GiB -4 GiB   +3 GiB -3 GiB        4 GiB: the second fits where the first was
#pragma once

#include <vector>

#include "ledger/program.h"

namespace steelyard {

// The largest tensor that appears in a program.
Bytes largest_allocation(const Program& program, NodeId id);

// Reserved for tensors of `events` that are larger than `cached`.
Bytes blocks_beyond(Bytes cached, const Program& program, const std::vector<Event>& events);

}  // namespace steelyard
