// Experiments on disk: the runs that decide between the causes that remain, and what came of them.
//
//   experiments/experiments.json       the plan: the causes, and what each run must show
//   experiments/1/run.toml             the first changed run, as the user's own files
//   experiments/1/train.log            what it left behind: put here by the user
//
//   steelyard diagnose oom.txt --against run.toml --plan-experiment --to-folder experiments
//   steelyard diagnose experiments            or: diagnose experiments/experiments.json first.log second.log
#pragma once

#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "cli/command.h"
#include "cli/run_input.h"
#include "diagnose/diagnosis.h"
#include "diagnose/experiment_outcome.h"

namespace steelyard {

// The written files' names, or what could not be written. Absent run: its folders are made, and stay empty.
tl::expected<std::vector<std::string>, Diagnostics> write_experiments(const std::string& folder,
                                                                      PlannedExperiments plan,
                                                                      const RunInput* run);

struct ExperimentResults {
  PlannedExperiments plan;
  std::vector<ExperimentOutcome> outcomes;
  Diagnostics problems;  // of files that are no evidence
};

// Nothing where the words are no plan: a folder that holds one, or its file and one file or folder for each run.
std::optional<tl::expected<ExperimentResults, Diagnostics>> read_experiments(
    const std::vector<std::string>& words);

}  // namespace steelyard
