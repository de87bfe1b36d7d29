// The answer of a rehearsal in the form of a prediction: what was seen of each rank, and what CUDA and NCCL hold beside it.
#pragma once

#include <vector>

#include "machine/runtime.h"
#include "predict/prediction.h"
#include "rehearse/rehearsal.h"

namespace steelyard {

struct Rehearsed {
  Job job;  // the devices alone: a script says nothing of its model
  Prediction prediction;
  std::optional<Moment> moment;  // of the peak
};

// `seen`: each rank once, at least one with phases. `cluster`: the devices that it was on.
Rehearsed rehearsed_answer(const std::vector<Rehearsal>& seen, const Cluster& cluster);

// What a process holds outside the allocator there.
RuntimeBytes rehearsed_runtime(const Cluster& cluster);

}  // namespace steelyard
