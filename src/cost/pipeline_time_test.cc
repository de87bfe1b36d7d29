#include "cost/pipeline_time.h"

#include <gtest/gtest.h>

#include <random>

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

class RandomParts {
 public:
  std::int64_t upto(std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(1, most)(random_);
  }
  std::vector<PartSeconds> of(const PipelineOrder& order, const PipelineShape& shape) {
    std::vector<PartSeconds> parts = alike(order, shape, {});
    for (PartSeconds& part : parts) {
      const double layers = static_cast<double>(upto(4)) - (upto(4) == 1 ? 1 : 0);
      part = {layers * 0.01, layers * 0.012, layers * 0.008 * static_cast<double>(upto(2))};
    }
    return parts;
  }

 private:
  std::mt19937 random_{1};
};

TEST(PipelineTime, NoOrderOfAnyPartsTakesLessThanTheLeast) {
  RandomParts random;
  int asked = 0;
  for (const PipelineOrder& order : pipeline_orders())
    for (int i = 0; i < 300; ++i) {
      const std::int64_t most = order.most_chunks > 0 ? order.most_chunks : 4;
      const std::int64_t chunks =
          order.fewest_chunks + random.upto(most) % (most - order.fewest_chunks + 1);
      const std::int64_t ranks = 2 * random.upto(4);
      const PipelineShape shape{ranks, chunks, ranks * random.upto(5), ranks};
      if (order.fault && !order.fault(shape).empty()) continue;
      ++asked;
      const std::vector<PartSeconds> parts = random.of(order, shape);
      EXPECT_LE(least_pipeline_seconds(order, shape, parts),
                simulated_seconds(order, shape, parts) + 1e-9)
          << order.name;
    }
  EXPECT_GT(asked, 1500);
}

TEST(PipelineTime, BreadthFirstIsTheSimulationOfAnyParts) {
  RandomParts random;
  const PipelineOrder& order = order_of(PipelineSchedule::kLoopedBreadthFirst);
  for (int i = 0; i < 3000; ++i) {
    const PipelineShape shape{1 + random.upto(7), random.upto(5), random.upto(20), 1};
    const std::vector<PartSeconds> parts = random.of(order, shape);
    EXPECT_NEAR(pipeline_seconds(order, shape, parts), simulated_seconds(order, shape, parts),
                1e-9);
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
