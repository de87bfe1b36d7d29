// The parts of `weigh` that stand alone: many jobs on lines, a snapshot for a viewer, and the check by replay.
#pragma once

#include <optional>
#include <string>
#include <tl/expected.hpp>

#include "cli/command.h"
#include "cost/budget.h"
#include "predict/prediction.h"

namespace steelyard {

// One run file as JSON a line, one answer a line, in order; a bad line is answered by an error object.
int weigh_jobs(const Invocation& invocation, const std::string& file);

// --snapshot: writes the predicted timeline of --rank; the status to end with when it could not.
std::optional<int> write_snapshot(const Invocation& invocation, const Job& job,
                                  const Prediction& prediction);

// --tokens, --price: what training costs; nothing where it is not asked.
tl::expected<std::optional<Budget>, Diagnostics> budget_asked(const Invocation& invocation,
                                                              const Job& job,
                                                              const Prediction& prediction);

// --trace: writes the predicted step; the status to end with when it could not.
std::optional<int> write_trace(const Invocation& invocation, const Job& job);

// What differs between the prediction and the judge's, as sentences; empty when nothing does.
std::string differences(Prediction spans, const Prediction& replayed);

}  // namespace steelyard
