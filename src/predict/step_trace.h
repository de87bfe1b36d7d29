// The predicted step as a picture: what every rank of a pipeline does when, and what it holds meanwhile.
//
//   rank 0   F0 [compute tensor] F1 ... B0 ... optimizer       memory: parameters, activations, ... at every edge and peak
//
// Times are those of predict_time(), the order that of schedule/simulate.h; bytes are the ledger's own: before each passage,
// at its highest point, after it. One rank stands for all that share its stage.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "job/job.h"
#include "ledger/pile.h"

namespace steelyard {

struct TraceSlice {
  std::int64_t rank = 0;
  std::string name;        // "forward 3", "tensor", "optimizer"
  std::int64_t depth = 0;  // 1: lies within the slice before it of depth 0
  double start = 0, seconds = 0;
};
struct TraceMemory {
  std::int64_t rank = 0;
  double time = 0;
  Piles piles;
};
struct StepTrace {
  std::vector<std::string> ranks;  // "stage 0 of 4"
  std::vector<TraceSlice> slices;
  std::vector<TraceMemory> memory;
};

// Of a device whose times are known.
StepTrace step_trace(const Job& job);

}  // namespace steelyard
