#include "schedule/orders.h"

#include "schedule/orders/orders.h"

namespace steelyard {

namespace {

std::string no_fault(const PipelineShape&) { return ""; }
constexpr std::int64_t kAny = 0;

}  // namespace

const std::array<PipelineOrder, kPipelineSchedules>& pipeline_orders() {
  static const std::array<PipelineOrder, kPipelineSchedules> kOrders = {{
      {PipelineSchedule::kGPipe, "gpipe", "all forwards, then all backwards", "m",
       "Huang et al. 2019, arXiv:1811.06965; torch ScheduleGPipe; nanotron afab", Placement::kLoop,
       1, 1, false, false, gpipe_order, no_fault},
      {PipelineSchedule::kOneForwardOneBackward, "1f1b", "one forward, one backward in turn",
       "min(m, p - r)", "Narayanan et al. 2021, arXiv:2104.04473; Megatron-LM; torch Schedule1F1B",
       Placement::kLoop, 1, 1, false, false, one_forward_one_backward_order, interlaced_fault},
      {PipelineSchedule::kInterleaved, "interleaved", "1f1b over v chunks a rank, in a loop",
       "(v-1)g + 2(p-1-r) + 1 chunks",
       "Narayanan et al. 2021; Megatron-LM; torch ScheduleInterleaved1F1B", Placement::kLoop, 2,
       kAny, false, false, interleaved_order, whole_groups_fault},
      {PipelineSchedule::kZeroBubbleH1, "zb-h1", "weight gradients fill the bubble, memory of 1f1b",
       "p v chunks", "Qi et al. 2024, arXiv:2401.10241; torch ScheduleInterleavedZeroBubble",
       Placement::kLoop, 1, kAny, true, false, zero_bubble_h1_order, whole_groups_fault},
      {PipelineSchedule::kZeroBubbleH2, "zb-h2", "no bubble, about twice the memory of 1f1b",
       "2p - 1", "Qi et al. 2024, arXiv:2401.10241", Placement::kLoop, 1, 1, true, false,
       zero_bubble_h2_order, no_fault},
      {PipelineSchedule::kZeroBubbleV, "zb-v", "zero bubble over a V of two chunks a rank",
       "2p chunks", "Qi et al. 2024, arXiv:2401.10241; torch ScheduleZBVZeroBubble", Placement::kV,
       2, 2, true, false, zero_bubble_v_order, no_fault},
      {PipelineSchedule::kDualPipe, "dualpipe", "two directions at once, the parameters twice",
       "p + 1", "DeepSeek-V3, arXiv:2412.19437; deepseek-ai/DualPipe", Placement::kTwoWays, 2, 2,
       true, false, dualpipe_order, dualpipe_fault},
      {PipelineSchedule::kDualPipeV, "dualpipe-v", "DualPipe folded into a V of two chunks a rank",
       "2p + 1 chunks", "deepseek-ai/DualPipe; torch ScheduleDualPipeV", Placement::kV, 2, 2, true,
       false, dualpipe_v_order, dualpipe_v_fault},
      {PipelineSchedule::kLoopedBreadthFirst, "looped-bfs",
       "gpipe over v chunks a rank, chunk after chunk", "m v chunks",
       "Lamy-Poirier 2022, arXiv:2211.05953; torch ScheduleLoopedBFS", Placement::kLoop, 1, kAny,
       false, true, looped_breadth_first_order, no_fault},
      {PipelineSchedule::kVHalf, "v-half", "half the memory of 1f1b over a V of two chunks a rank",
       "2 floor(p/2) + 2 chunks",
       "Qi et al. 2024, arXiv:2405.15362; sail-sg/zero-bubble-pipeline-parallelism", Placement::kV,
       2, 2, true, false, v_half_order, no_fault},
  }};
  return kOrders;
}

const PipelineOrder& order_of(PipelineSchedule schedule) {
  return pipeline_orders()[static_cast<std::size_t>(schedule)];
}

}  // namespace steelyard
