// Plays the orders of all ranks against each other: whether they can run, and how long ranks wait.
//
//   simulate(order, {.ranks = 4, .micro_batches = 8}, {.forward = 1, .input = 1, .weight = 1}).bubble       9
//
// A forward waits for the part before, a backward for the part after, both for nothing else than their own rank, but where the
// vocabulary is divided over the ranks, for all of them; messages take no time. Every micro-batch is played: for tests, drawings and the cost model, not for what weigh does.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "schedule/orders.h"

namespace steelyard {

// Of one part of the model.
struct StepTimes {
  std::int64_t forward = 1, input = 1, weight = 1;
};

struct PlayedStep {
  std::int64_t rank = 0, micro_batch = 0;
  PipelineStep step;
  std::int64_t start = 0, end = 0;
};

struct Simulation {
  std::string fault;        // "rank 2 waits for ever ...", "... twice"; empty: the order can run
  std::int64_t time = 0;    // from the first step of any rank to the last of any
  std::int64_t bubble = 0;  // the most that a rank waits between its own first and last step
};

// Parts that are alike.
Simulation simulate(const PipelineOrder& order, const PipelineShape& shape, StepTimes times = {});
// `parts`: of the model, from the embedding on; behind them a rank's lookup and its output layer, where these are divided. `played`: takes every step, in the order of the ranks' turns.
Simulation simulate(const PipelineOrder& order, const PipelineShape& shape,
                    const std::vector<StepTimes>& parts, std::vector<PlayedStep>* played = nullptr);

}  // namespace steelyard
