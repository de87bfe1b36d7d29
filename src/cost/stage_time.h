// Seconds of one micro-batch on one stage, term by term.
#pragma once

#include "cost/collective_time.h"
#include "cost/data_exchange.h"
#include "cost/kernel_time.h"
#include "cost/step_time.h"
#include "engine/stage_program.h"

namespace steelyard {

// The groups that a rank belongs to, by axis: tensor ranks are neighbours, then context, then data; stages stand furthest
// apart (Megatron-LM core/parallel_state.py; torch's device meshes name them in the same order).
struct RankGroups {
  Group tensor, context, expert, data;
  bool stages_across_machines = false;
  const Group& on(Axis axis) const;
};
RankGroups groups_of(const Job& job);

struct StageTime {
  TimeTerms forward, backward;  // of one micro-batch
  TimeTerms hidden;             // of one micro-batch: exchanges behind compute
  double model_flops = 0, executed_flops = 0;
  double seconds() const { return forward.total() + backward.total(); }
};

// `elements`: parameters of each unit on this rank, in the order of StageWork's units.
StageTime stage_time(const Job& job, const StageWork& work, const std::vector<double>& elements,
                     const KernelClock& kernels, const ExchangeClock& exchanges,
                     const DataExchange& data, double overlap_slowdown);

}  // namespace steelyard
