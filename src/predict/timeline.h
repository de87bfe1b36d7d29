// What a rank's allocator would do, from the first allocation to the end of its second step: the snapshot that
// torch.cuda.memory._snapshot() would return, with the rules as stack frames.
//
//   layers.17.mlp.gate_proj:17:output        what was asked for, and for whom
//   docs/rules.md:0:op.linear.output         why
//   micro-batch:3:backward                   when
//   step:1:first step
//
// Two steps are played, since the optimizer makes its states at the end of the first. Addresses and segments are those of
// the simulated allocator; no clock is simulated, so the time of an event is its number.
#pragma once

#include "allocator/memory_snapshot.h"
#include "job/job.h"

namespace steelyard {

struct Timeline {
  MemorySnapshot snapshot;
  bool cut = false;  // the limit of events came before the end of the second step
};

// PyTorch's viewer lists every event on a page of its own making and becomes unusable above about this many.
constexpr std::int64_t kMostTimelineEvents = 1'000'000;

// `rank_index`: one of `prediction.ranks`.
Timeline timeline_of(const Job& job, std::size_t rank_index,
                     std::int64_t most_requests = kMostTimelineEvents / 2);

}  // namespace steelyard
