// Every order over a grid of shapes: it can run, and what it keeps in flight and how long it waits are the published
// numbers. p ranks, v chunks, m micro-batches; tf, ti, tw of one chunk.
#include "schedule/orders.h"

#include <gtest/gtest.h>

#include "schedule/simulate.h"

namespace steelyard {
namespace {

constexpr std::int64_t kMostRanks = 16, kMostChunks = 4, kMostMicroBatches = 64;

template <class Check>
void for_each_shape(PipelineSchedule schedule, Check check,
                    VocabularyLayers vocabulary = VocabularyLayers::kAtTheEnds) {
  const PipelineOrder& order = order_of(schedule);
  int shapes = 0;
  for (std::int64_t p = 2; p <= kMostRanks; ++p)
    for (std::int64_t v = order.fewest_chunks;
         v <= (order.most_chunks == 0 ? kMostChunks : order.most_chunks); ++v)
      for (std::int64_t m = 1; m <= kMostMicroBatches; ++m) {
        // Around the number of ranks all micro-batches, beyond it some.
        if (m > 2 * p + 2 && m % p > 1) continue;
        const PipelineShape shape{p, v, m, p, vocabulary};
        if (!order.fault(shape).empty()) continue;
        SCOPED_TRACE(std::string(order.name) + ": p " + std::to_string(p) + " v " +
                     std::to_string(v) + " m " + std::to_string(m) + " vocabulary " +
                     std::to_string(static_cast<int>(vocabulary)));
        check(order, shape);
        ++shapes;
        if (testing::Test::HasFailure()) return;
      }
  EXPECT_GT(shapes, 30);
}

std::int64_t most_in_flight(const PipelineOrder& order, const PipelineShape& shape,
                            std::int64_t rank) {
  return in_flight(order.rank_order(shape, rank), shape.chunks).most;
}

TEST(PipelineOrders, StandInTheOrderOfTheirNames) {
  for (std::size_t i = 0; i < pipeline_orders().size(); ++i)
    EXPECT_EQ(static_cast<std::size_t>(pipeline_orders()[i].schedule), i);
}

TEST(PipelineOrders, CanRun) {
  for (const PipelineOrder& each : pipeline_orders())
    for_each_shape(each.schedule, [](const PipelineOrder& order, const PipelineShape& shape) {
      EXPECT_EQ(simulate(order, shape).fault, "");
    });
}

// pytorch-distributed's and Megatron-LM's own counts.
TEST(PipelineOrders, KeepTheirPublishedNumberInFlight) {
  const auto expect = [](PipelineSchedule schedule, auto count, std::int64_t rounds = 0) {
    for_each_shape(schedule, [&](const PipelineOrder& order, const PipelineShape& shape) {
      if (shape.micro_batches < rounds * shape.ranks) return;
      for (std::int64_t r = 0; r < shape.ranks; ++r)
        EXPECT_EQ(most_in_flight(order, shape, r), count(shape, r)) << "rank " << r;
    });
  };
  using Shape = PipelineShape;
  using Rank = std::int64_t;
  const auto capped = [](const Shape& s, std::int64_t n) {
    return std::min(n, s.micro_batches * s.chunks);
  };
  expect(PipelineSchedule::kGPipe, [](const Shape& s, Rank) { return s.micro_batches; });
  expect(PipelineSchedule::kOneForwardOneBackward,
         [&](const Shape& s, Rank r) { return capped(s, s.ranks - r); });
  expect(PipelineSchedule::kLoopedBreadthFirst,
         [](const Shape& s, Rank) { return s.micro_batches * s.chunks; });
  expect(PipelineSchedule::kInterleaved, [&](const Shape& s, Rank r) {
    return capped(s, (s.chunks - 1) * s.group + 2 * (s.ranks - 1 - r) + 1);
  });
  expect(PipelineSchedule::kZeroBubbleH1,
         [&](const Shape& s, Rank) { return capped(s, (s.chunks - 1) * s.group + s.ranks); });
  expect(PipelineSchedule::kZeroBubbleH2,
         [&](const Shape& s, Rank) { return capped(s, 2 * s.ranks - 1); });
  // Fewer micro-batches never fill the V.
  expect(
      PipelineSchedule::kZeroBubbleV, [](const Shape& s, Rank) { return 2 * s.ranks; }, 2);
  expect(
      PipelineSchedule::kVHalf, [](const Shape& s, Rank) { return s.ranks / 2 * 2 + 2; }, 2);
  expect(PipelineSchedule::kDualPipe, [](const Shape& s, Rank) { return s.ranks + 1; });
  expect(PipelineSchedule::kDualPipeV, [](const Shape& s, Rank) { return 2 * s.ranks + 1; });
}

TEST(PipelineOrders, KeepInFlightByChunk) {
  for_each_shape(PipelineSchedule::kDualPipeV,
                 [](const PipelineOrder& order, const PipelineShape& s) {
                   for (std::int64_t r = 0; r < s.ranks; ++r) {
                     const InFlight flight = in_flight(order.rank_order(s, r), s.chunks);
                     EXPECT_EQ(flight.by_chunk[0], 2 * s.ranks - r);
                     EXPECT_EQ(flight.by_chunk[1], r + 1);
                   }
                 });
  // The examples of torch's own replay: 4 ranks with 2 and 4 chunks.
  const PipelineOrder& order = order_of(PipelineSchedule::kInterleaved);
  for (std::int64_t r = 0; r < 4; ++r) {
    EXPECT_EQ(most_in_flight(order, {4, 2, 8, 4}, r), 11 - 2 * r);
    EXPECT_EQ(most_in_flight(order, {4, 4, 8, 4}, r), 19 - 2 * r);
  }
}

// The vocabulary divided over all ranks, in the orders that have it.
constexpr std::pair<PipelineSchedule, VocabularyLayers> kDividedVocabulary[] = {
    {PipelineSchedule::kOneForwardOneBackward, VocabularyLayers::kTwoExchanges},
    {PipelineSchedule::kOneForwardOneBackward, VocabularyLayers::kOneExchange},
    {PipelineSchedule::kOneForwardOneBackward, VocabularyLayers::kInterlaced},
    {PipelineSchedule::kVHalf, VocabularyLayers::kTwoExchanges},
    {PipelineSchedule::kVHalf, VocabularyLayers::kOneExchange}};

TEST(PipelineOrders, CanRunWithADividedVocabulary) {
  for (const auto& [schedule, vocabulary] : kDividedVocabulary)
    for_each_shape(
        schedule,
        [](const PipelineOrder& order, const PipelineShape& shape) {
          EXPECT_EQ(simulate(order, shape).fault, "");
        },
        vocabulary);
}

// Yeung et al. 2024, table in the README of their code: p + 2, p + 1 and 1.5 p micro-batches; V-Half's authors delay every
// backward by a period of two chunks for each exchange.
TEST(PipelineOrders, KeepMoreInFlightForADividedVocabulary) {
  for (const auto& [schedule, vocabulary] : kDividedVocabulary)
    for_each_shape(
        schedule,
        [vocabulary = vocabulary](const PipelineOrder& order, const PipelineShape& s) {
          if (s.micro_batches < 2 * s.ranks + 2) return;  // fewer never fill the V
          const std::int64_t more = vocabulary == VocabularyLayers::kTwoExchanges ? 2 : 1;
          for (std::int64_t r = 0; r < s.ranks; ++r) {
            const std::int64_t expected =
                order.schedule == PipelineSchedule::kVHalf    ? s.ranks / 2 * 2 + 2 + 2 * more
                : vocabulary == VocabularyLayers::kInterlaced ? s.ranks * 3 / 2 - r
                                                              : s.ranks - r + more;
            EXPECT_EQ(most_in_flight(order, s, r), expected) << "rank " << r;
          }
        },
        vocabulary);
}

// With as much of the vocabulary on each rank as on any other, the bubble is that of 1F1B without it.
TEST(PipelineOrders, WaitNoLongerForADividedVocabulary) {
  for (const auto& [schedule, vocabulary] : kDividedVocabulary) {
    if (schedule != PipelineSchedule::kOneForwardOneBackward) continue;
    for_each_shape(
        schedule,
        [](const PipelineOrder& order, const PipelineShape& s) {
          if (s.micro_batches < 3 * s.ranks) return;
          std::vector<StepTimes> times(static_cast<std::size_t>(s.ranks), {60, 60, 60});
          times.push_back({1, 1, 0});
          times.push_back({4, 4, 4});
          const std::int64_t of_vocabulary = times[times.size() - 2].forward + 1 + 12;
          EXPECT_LE(simulate(order, s, times).bubble, (s.ranks - 1) * (180 + of_vocabulary));
        },
        vocabulary);
  }
}

// Folding is exact: the folded order of 64 micro-batches lets live what each step of it does.
TEST(PipelineOrders, CostAsMuchForManyMicroBatches) {
  for (const PipelineOrder& order : pipeline_orders()) {
    const std::int64_t v = order.fewest_chunks;
    const auto steps = [&](std::int64_t m) {
      std::size_t sum = 0;
      const RankOrder folded = order.rank_order({8, v, m, 8}, 3);
      for (const Stretch& stretch : folded.stretches()) sum += stretch.steps().size();
      return sum;
    };
    EXPECT_EQ(steps(64), steps(512)) << order.name;
  }
  for (const auto& [schedule, vocabulary] : kDividedVocabulary) {
    const PipelineOrder& order = order_of(schedule);
    const auto stretches = [&, vocabulary = vocabulary](std::int64_t m) {
      return order.rank_order({8, order.fewest_chunks, m, 8, vocabulary}, 3).stretches().size();
    };
    EXPECT_EQ(stretches(64), stretches(512)) << order.name;
  }
}

struct Bound {
  PipelineSchedule schedule;
  StepTimes times;
  bool exact;
  std::int64_t (*bubble)(const PipelineShape& s, StepTimes t);
};

TEST(PipelineOrders, WaitNoLongerThanPublished) {
  constexpr StepTimes kEqual{2, 2, 2}, kUnequal{6, 7, 5};
  const Bound bounds[] = {
      {PipelineSchedule::kGPipe, kUnequal, true,
       [](const PipelineShape& s, StepTimes t) {
         return (s.ranks - 1) * (t.forward + t.input + t.weight);
       }},
      {PipelineSchedule::kOneForwardOneBackward, kUnequal, true,
       [](const PipelineShape& s, StepTimes t) {
         return (s.ranks - 1) * (t.forward + t.input + t.weight);
       }},
      {PipelineSchedule::kInterleaved, kUnequal, true,
       [](const PipelineShape& s, StepTimes t) {
         return (s.ranks - 1) * (t.forward + t.input + t.weight);
       }},
      {PipelineSchedule::kZeroBubbleH1, kEqual, false,
       [](const PipelineShape& s, StepTimes t) {
         return (s.ranks - 1) * (t.forward + t.input - t.weight);
       }},
      {PipelineSchedule::kZeroBubbleH2, kEqual, false,
       [](const PipelineShape& s, StepTimes t) {
         return (s.ranks - 1) * (t.forward + t.input - 2 * t.weight);
       }},
      {PipelineSchedule::kZeroBubbleV, kEqual, false,
       [](const PipelineShape&, StepTimes) { return std::int64_t{0}; }},
      // Half of 1f1b's memory at less than its bubble, of whole forwards and backwards.
      {PipelineSchedule::kVHalf, kEqual, false,
       [](const PipelineShape& s, StepTimes t) {
         return 2 * (s.ranks - 1) * (t.forward + t.input + t.weight);
       }},
      {PipelineSchedule::kDualPipe, kEqual, false,
       [](const PipelineShape& s, StepTimes t) {
         return (s.ranks / 2 - 1) * (t.forward + 2 * (t.input + t.weight) - 3 * t.weight);
       }},
      {PipelineSchedule::kDualPipeV, kEqual, false,
       [](const PipelineShape& s, StepTimes t) {
         return (s.ranks - 1) * (t.forward + 2 * (t.input + t.weight) - 3 * t.weight);
       }},
  };
  for (const Bound& bound : bounds)
    for_each_shape(bound.schedule, [&](const PipelineOrder& order, const PipelineShape& shape) {
      if (shape.micro_batches < 2 * shape.ranks) return;  // the pipeline is full
      const std::int64_t waits = simulate(order, shape, bound.times).bubble;
      if (bound.exact)
        EXPECT_EQ(waits, bound.bubble(shape, bound.times));
      else
        EXPECT_LE(waits, bound.bubble(shape, bound.times));
    });
}

}  // namespace
}  // namespace steelyard
