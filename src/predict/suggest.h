// The ways out of a run that does not fit: changes of its run file, each alone sufficient, cheapest first.
//
//   suggest(job, prediction, [&](const auto& edits) { return the job of the run file with these keys written in; })
//
//   1  recompute.mode = full          56.0 GiB    +2.2 s
//   2  micro_batch = 1                62.3 GiB    +1.1 s
//      + recompute every 2nd layer
//
// Each is weighed as the run file that has it, so a change that is applied keeps what was said of it.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "predict/prediction.h"

namespace steelyard {

using RunEdits = std::vector<Suggestion::Edit>;
// The run with these keys written over it; absent: no run that is weighed, or the user's tool has no word for a key.
using Rewritten = std::function<std::optional<Job>(const RunEdits&)>;

// Changes that make `job` fit, each alone sufficient, cheapest for the team first; empty if it fits already or nothing helps.
// On one device that cannot train the whole model, adapters follow: they train something else.
std::vector<Suggestion> suggest(const Job& job, const Prediction& prediction,
                                const Rewritten& rewritten);

}  // namespace steelyard
