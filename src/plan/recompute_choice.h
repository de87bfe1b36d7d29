// What to compute again so that a run fits, in as little time as can be: recompute.mode = "budget".
//
//   none         when it fits
//   selective    core attention
//   every k      the largest k that fits       } by halving: the fewer layers are computed again, the more is kept
//   block n      the fewest layers that fit    }
//   full
//
// Of those that the engine has, the fastest that fits; where nothing fits, full. Memory is that of predict(), so the
// choice is exact within these policies; subsets of layers that are no prefix and no rhythm are not looked at.
#pragma once

#include <functional>

#include "job/read.h"

namespace steelyard {

// Whether the run asks for it. With recompute.budget it asks for torch's choice among operators of a compiled graph.
bool asks_for_recompute_choice(const Value& run);

// The job with what was chosen, and an assumption that says so. `read` as for any run.
ReadJob with_recompute_chosen(const Value& run, const std::function<ReadJob(const Value&)>& read);

}  // namespace steelyard
