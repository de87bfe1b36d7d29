#include "rehearse/answer.h"

#include <gtest/gtest.h>

namespace steelyard {
namespace {

Cluster devices_of(std::string_view name, std::int64_t count) {
  Cluster cluster;
  cluster.device = std::make_shared<Device>(*find_device(name).device);
  cluster.devices = Ranks(count);
  return cluster;
}

RehearsedPhase phase_seen(std::string step, Phase phase, Bytes allocated, Bytes reserved) {
  RehearsedPhase seen;
  seen.step = std::move(step);
  seen.phase = phase;
  seen.allocated = seen.resident = allocated;
  seen.reserved = reserved;
  seen.piles[Pile::kActivations] = allocated;
  return seen;
}

Rehearsal rank_seen(std::int64_t rank, Bytes later) {
  Rehearsal seen;
  seen.rank = rank;
  seen.ranks = 8;
  seen.phases = {phase_seen("load", Phase::kLoad, 1_GiB, 2_GiB),
                 phase_seen("first", Phase::kBackward, 5_GiB, 6_GiB),
                 phase_seen("steady", Phase::kBackward, later, later + 1_GiB),
                 phase_seen("steady", Phase::kOptimizer, 3_GiB, later + 1_GiB)};
  return seen;
}

TEST(RehearsedAnswer, ItsPeakIsTheFullestRanks) {
  const Rehearsed answer =
      rehearsed_answer({rank_seen(0, 8_GiB), rank_seen(7, 9_GiB)}, devices_of("h100-sxm-80gb", 8));
  EXPECT_EQ(answer.prediction.peak.rank, 7);
  EXPECT_EQ(answer.prediction.peak.allocated, 9_GiB);
  EXPECT_EQ(answer.prediction.peak.reserved, 10_GiB);
  EXPECT_EQ(answer.prediction.ranks[0].first_step.allocated, 5_GiB);
  EXPECT_EQ(answer.prediction.ranks[0].resident, 3_GiB);
  EXPECT_EQ(answer.prediction.verdict, Verdict::kFits);
}

TEST(RehearsedAnswer, AFirstStepThatIsTheHighestIsThePeak) {
  const Rehearsed answer = rehearsed_answer({rank_seen(0, 4_GiB)}, devices_of("h100-sxm-80gb", 1));
  EXPECT_EQ(answer.prediction.peak.allocated, 5_GiB);
  EXPECT_EQ(answer.prediction.peak.reserved, 6_GiB);
}

// What lies beside the allocator is more with others than alone.
TEST(RehearsedAnswer, RanksAddACommunicator) {
  EXPECT_GT(rehearsed_runtime(devices_of("h100-sxm-80gb", 8)).expected,
            rehearsed_runtime(devices_of("h100-sxm-80gb", 1)).expected);
}

TEST(RehearsedAnswer, ADeathDoesNotFitHoweverLittleWasSeen) {
  Rehearsal dead = rank_seen(0, 8_GiB);
  dead.error = RehearsedError{"OutOfMemoryError", "CUDA out of memory.", "train.py:7", "", true};
  EXPECT_EQ(rehearsed_answer({dead}, devices_of("h100-sxm-80gb", 1)).prediction.verdict,
            Verdict::kDoesNotFit);
}

TEST(RehearsedAnswer, TightWhereTheBandCrossesTheLine) {
  const Rehearsed answer =
      rehearsed_answer({rank_seen(0, 77_GiB + 512_MiB)}, devices_of("h100-sxm-80gb", 1));
  EXPECT_EQ(answer.prediction.verdict, Verdict::kTight);
}

}  // namespace
}  // namespace steelyard
