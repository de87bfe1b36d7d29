// How long the micro-batches of a step take on a pipeline, from the first step of any rank to the last of any.
//
//   gpipe, 1f1b    slowest stage x micro-batches + one passage through the others
//   interleaved    the same; chunks divide the passage
//   looped-bfs     part after part, each from its first and its last micro-batch
//   the others     schedule/simulate.h plays the order on the parts' own times
//
// The first closed forms are exact for equal stages, that of looped-bfs for any (pipeline_time_test.cc holds them to the
// simulation). Many micro-batches are not played: an order repeats itself, so that a few tell what each further one costs;
// and no order is quicker than its ranks: a rank begins when a micro-batch has come through the parts before its first one,
// runs all its steps one after the other, and its last backward still goes back through those parts.
//
// Breadth first, exactly. A part runs its n micro-batches one right after the other as they come, f seconds each, once its
// rank is free at time r: micro-batch m, which arrives at A(m), ends at D(m) = f + max(A(m), D(m-1)), D(-1) = r. So
//   D(m) = f + max over j <= m of (a(j) + (m - j) f),   a(0) = max(A(0), r), a(j) = A(j) for the others.
// Where A is convex, what stands under the maximum is convex in j but for a(0), which may only be higher: the maximum is at
// j = 0 or at j = m. So D(m) = f + max(a(m), a(0) + m f), which is convex again, as a maximum of convex functions; the first
// part's A is 0, and that of a chunk is D of the chunk before on the last rank. Convex functions are asked for their first
// and last value alone: the last tells when the rank is free for its next chunk. Backward is the same line from the loss
// on, in the order in which it takes micro-batches: its forwards are over, and its first part waits for its rank alone.
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
// No order takes less.
double least_pipeline_seconds(const PipelineOrder& order, const PipelineShape& shape,
                              const std::vector<PartSeconds>& parts);
// Whether pipeline_seconds() is a closed form, which grows with every part.
bool has_closed_form(PipelineSchedule schedule);
// Megatron's interleaving and the orders without bubbles send while they compute; the others wait for every message
// (megatron/core/pipeline_parallel/schedules.py, overlap_p2p_comm; torch's pipelines post a receive when they need it).
bool sends_beside_compute(bool on_torch, PipelineSchedule schedule);
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
