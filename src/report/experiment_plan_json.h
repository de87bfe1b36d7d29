// A plan of experiments as a file that is read back when its runs have ended: steelyard.experiments/1.
//
//   {"schema": "steelyard.experiments/1", "run": "run", "peak_bytes": 97818...,
//    "causes": [{"cause": "logits", "certainty": 0.72, "proof": [...]}, ...],
//    "experiments": [{"change": {"training.loss": "chunked"}, "text": ..., "folder": "1", "expect_bytes": {...}}, ...]}
#pragma once

#include <string>
#include <string_view>
#include <tl/expected.hpp>

#include "diagnose/experiment_outcome.h"
#include "document/diagnostic.h"

namespace steelyard {

// The name of the file in a plan's folder; the runs lie in the folders 1, 2, ... beside it.
constexpr std::string_view kExperimentPlanFile = "experiments.json";

std::string experiment_plan_text(const PlannedExperiments& plan);

// Whether the text says of itself that it is one.
bool is_experiment_plan(std::string_view text);
tl::expected<PlannedExperiments, Diagnostics> read_experiment_plan(std::string_view text,
                                                                   std::string_view name);

}  // namespace steelyard
