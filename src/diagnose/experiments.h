// The fewest runs that decide between the causes that remain, with the number that each must show.
//
//   training.loss = chunked             the peak falls by 7.1 GiB if it is the logits, by 3.0 if it is activations
//   training.sequence_length = 2,048    by 11.2 if it is activations, by 0.0 if it is the optimizer's state
//
// A cause says in which phase the peak lies, and whose tensors are alive there. A changed run's peak then falls by what
// these tensors fall; what was measured above the prediction is theirs, and shrinks in proportion. Two causes are decided by
// a run in which one falls by at least a thirtieth of the peak and the other stays.
#pragma once

#include <utility>
#include <vector>

#include "diagnose/diagnosis.h"

namespace steelyard {

struct ExperimentPlan {
  std::vector<Experiment> runs;                    // all of them together decide
  std::vector<std::pair<Cause, Cause>> undecided;  // by none of the changes that are known
  Bytes peak{};  // of the run as it failed: measured or predicted, the larger
};

// Of a diagnosis with findings and a run; otherwise empty.
ExperimentPlan plan_experiments(const DiagnosisQuestion& question, const Diagnosis& diagnosis);

}  // namespace steelyard
