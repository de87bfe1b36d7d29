// The largest model that fits a cluster, for each way of sharing the states of data-parallel
// training.
//
//   devices      ddp   zero 1   zero 2   zero 3
//         1     3.5B     3.5B     3.5B     3.5B
//        64     3.5B    12.1B    16.3B     175B
//
// Two answers a point: what the states alone would allow (bytes per parameter, nothing else), and
// what is sure to fit as `weigh` says, with activations, buffers and runtime, up to the high end of
// its band. Models are the stated guesses of "7B", and the run stays as it is written: one
// micro-batch a step. Which layout takes the largest model is another question (plan/extremes.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "document/value.h"
#include "plan/sweep.h"

namespace steelyard {

struct Strategy {
  std::string name;    // "zero 1"
  std::string engine;  // of the run file
  std::int64_t zero_stage = 0;
};
const std::vector<Strategy>& strategies();

struct LargestModel {
  std::int64_t devices = 1;
  std::int64_t states_alone = 0;  // parameters whose states fill the device
  std::int64_t predicted = 0;     // parameters of the largest that is sure to fit; 0: none
  std::string size;               // of that one, as `weigh` takes it: "28.160B"
};
struct LargestModelCurve {
  Strategy strategy;
  std::vector<LargestModel> points;
};
struct LargestModelAnswer {
  std::vector<LargestModelCurve> curves;
  Diagnostics problems;  // not empty: the run file itself is wrong
};

// `run` gives everything but the model, the engine, the stage and the number of devices. `estimate`:
// as `weigh`, without the allocator simulated; what it says does not fit is not weighed.
LargestModelAnswer largest_models(const Value& run, const std::vector<std::int64_t>& devices,
                                  const Weigh& weigh, const Weigh& estimate);

}  // namespace steelyard
