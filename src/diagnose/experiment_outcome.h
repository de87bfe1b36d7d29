// What the planned runs showed, and which of the causes that remained explains it.
//
//   planned   peak 91.1 GiB   the logits (72 %) or activations (55 %)
//   run 1     training.loss = chunked    must lower it by 47.0 GiB if it is the logits, by 0.0 if it is activations
//   outcome   peak 44.3 GiB, 46.8 GiB lower:   the logits, 97 % sure
//
// A run that failed again says only what it had allocated and requested: its peak is that or more, so the fall that or less.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "diagnose/diagnosis.h"

namespace steelyard {

// A plan as it is kept until its runs have ended (report/experiment_plan_json).
struct PlannedExperiments {
  std::string run;                    // the name of what was changed
  std::vector<std::string> evidence;  // of the failure: names of files
  Bytes peak{};                       // that the failed run had or would have had
  std::vector<Finding> causes;        // those that remained, the surest first
  std::vector<Experiment> runs;
};

PlannedExperiments planned_experiments(const Diagnosis& diagnosis);

struct ExperimentOutcome {
  enum class Kind : std::uint8_t {
    kMissing,  // no evidence of this run
    kSilent,   // evidence without max_memory_allocated, a snapshot or a failure of the device
    kPeak,     // the run went on, its peak is known
    kFailed    // it ran out of memory again: its peak is at least this
  };
  Kind kind = Kind::kMissing;
  Bytes peak{};
  EvidencePlace place;
};

ExperimentOutcome outcome_of(std::span<const Evidence> evidence);

// `outcomes`: one for each run of the plan, in its order.
Diagnosis decided_by(const PlannedExperiments& plan,
                     const std::vector<ExperimentOutcome>& outcomes);

}  // namespace steelyard
