#include "cost/pipeline_time.h"

#include <gtest/gtest.h>

namespace steelyard {
namespace {

std::vector<PartSeconds> alike(const PipelineOrder& order, const PipelineShape& shape,
                               const PartSeconds& part) {
  return std::vector<PartSeconds>(static_cast<std::size_t>(parts_in_line(order.placement, shape)),
                                  part);
}

TEST(PipelineTime, ClosedFormsAreTheSimulationOfEqualStages) {
  const PartSeconds part{0.010, 0.012, 0.008};
  for (const auto& [schedule, chunks] : {std::pair{PipelineSchedule::kGPipe, 1},
                                         {PipelineSchedule::kOneForwardOneBackward, 1},
                                         {PipelineSchedule::kInterleaved, 2},
                                         {PipelineSchedule::kInterleaved, 4}}) {
    const PipelineOrder& order = order_of(schedule);
    for (const std::int64_t ranks : {2, 4, 8})
      for (const std::int64_t rounds : {1, 2, 5}) {
        const PipelineShape shape{ranks, chunks, ranks * rounds, ranks};
        const std::vector<PartSeconds> parts = alike(order, shape, part);
        EXPECT_NEAR(pipeline_seconds(order, shape, parts), simulated_seconds(order, shape, parts),
                    1e-9)
            << order.name << " " << ranks << " ranks, " << chunks << " chunks, " << rounds;
      }
  }
}

TEST(PipelineTime, ManyMicroBatchesNeedNotBePlayed) {
  for (const PipelineOrder& order : pipeline_orders()) {
    const std::int64_t chunks = order.fewest_chunks;
    const PipelineShape shape{4, chunks, 96, 4};
    if (order.fault && !order.fault(shape).empty()) continue;
    std::vector<PartSeconds> parts = alike(order, shape, {0.010, 0.013, 0.009});
    parts.back().forward += 0.002;  // the head
    const double judged = simulated_seconds(order, shape, parts);
    EXPECT_NEAR(pipeline_seconds(order, shape, parts) / judged, 1, 0.01) << order.name;
  }
}

TEST(PipelineTime, TheBubbleOfFigure18) {
  // (p-1)/m of the ideal time m(tf+tb)
  const PipelineOrder& order = order_of(PipelineSchedule::kOneForwardOneBackward);
  const PipelineShape shape{4, 1, 32, 1};
  const double ideal = 32 * 0.030;
  EXPECT_NEAR(pipeline_seconds(order, shape, alike(order, shape, {0.010, 0.012, 0.008})) - ideal,
              3 * 0.030, 1e-12);
}

TEST(PipelineTime, SplittingBackwardShortensTheBubble) {
  const PartSeconds part{0.010, 0.010, 0.010};
  const auto seconds = [&](PipelineSchedule schedule) {
    const PipelineOrder& order = order_of(schedule);
    const PipelineShape shape{8, order.fewest_chunks, 32, 8};
    std::vector<PartSeconds> parts = alike(order, shape, part);
    return pipeline_seconds(order, shape, parts);
  };
  EXPECT_LT(seconds(PipelineSchedule::kZeroBubbleH1),
            seconds(PipelineSchedule::kOneForwardOneBackward));
}

}  // namespace
}  // namespace steelyard
