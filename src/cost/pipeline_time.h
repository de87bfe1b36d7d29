// How long the micro-batches of a step take on a pipeline, from the first step of any rank to the last of any.
//
//   gpipe, 1f1b    slowest stage x micro-batches + one passage through the others
//   interleaved    the same; chunks divide the passage
//   the others     schedule/simulate.h plays the order on the parts' own times
//
// The closed forms are exact for equal stages (pipeline_time_test.cc holds them to the simulation). Many micro-batches are
// not played: an order repeats itself, so that a few tell what each further one costs.
#pragma once

#include <vector>

#include "schedule/orders.h"

namespace steelyard {

struct PartSeconds {
  double forward = 0, input = 0, weight = 0;  // backward: of the input, and of the weights
  double total() const { return forward + input + weight; }
};

// `parts`: of the model, from the embedding on, as schedule/order.h places them.
double pipeline_seconds(const PipelineOrder& order, const PipelineShape& shape,
                        const std::vector<PartSeconds>& parts);
// The judge: every micro-batch is played.
double simulated_seconds(const PipelineOrder& order, const PipelineShape& shape,
                         const std::vector<PartSeconds>& parts);
struct PlayedSeconds {
  std::int64_t rank = 0, micro_batch = 0;
  PipelineStep step;
  double start = 0, end = 0;
};
std::vector<PlayedSeconds> played_seconds(const PipelineOrder& order, const PipelineShape& shape,
                                          const std::vector<PartSeconds>& parts);

}  // namespace steelyard
