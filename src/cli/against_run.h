// The run that evidence is held against, weighed.
//
//   auto run = weigh_against(invocation, "run.toml");
//   hold_against(question, *run);            its job, its prediction, and how to weigh a changed one
#pragma once

#include <string>
#include <tl/expected.hpp>

#include "cli/command.h"
#include "cli/run_input.h"
#include "diagnose/diagnosis.h"

namespace steelyard {

struct AgainstRun {
  RunInput input;
  Value document;
  Weighed weighed;
};

// With the keys of the command line over it.
tl::expected<AgainstRun, Diagnostics> weigh_against(const Invocation& invocation,
                                                    const std::string& word);

// The question refers to the run, which must outlive it.
void hold_against(DiagnosisQuestion& question, const AgainstRun& run);

}  // namespace steelyard
