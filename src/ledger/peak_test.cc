#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "ledger/program.h"

namespace steelyard {
namespace {

// Four layers that each keep 5 forward, and free them backward, where a temporary of 40 stands for a moment.
class PeakTest : public testing::Test {
 protected:
  PeakTest() {
    const std::vector<Event> forward = {{kept_, 1}},
                             backward = {{moment_, 1}, {moment_, -1}, {kept_, -1}};
    const NodeId there = program_.sequence(
        "forward",
        {program_.sequence(
            "layers", {program_.repeat("layer", program_.tape(Phase::kForward, "", forward), 4)})});
    const NodeId back = program_.sequence(
        "backward",
        {program_.sequence(
            "layers",
            {program_.repeat("layer", program_.tape(Phase::kBackward, "", backward), 4)})});
    const std::vector<Event> load = {{weight_, 1}};
    root_ = program_.sequence(
        "",
        {program_.tape(Phase::kLoad, "load", load),
         program_.sequence(
             "step", {program_.repeat("micro-batch", program_.sequence("", {there, back}), 3)})});
  }

  std::string path_of(const PeakMoment& moment) const {
    std::string path;
    for (const PeakMoment::Step& step : moment.path)
      path += (path.empty() ? "" : " ") + std::string(step.label) + " " +
              std::to_string(step.index) + "/" + std::to_string(step.times);
    return path;
  }

  Program program_;
  SlotId weight_ = program_.slot({"layer", "weight", "r", Pile::kParameters, Bytes(1'000)});
  SlotId kept_ = program_.slot({"layer", "kept", "r", Pile::kActivations, Bytes(5)});
  SlotId moment_ = program_.slot({"layer", "moment", "r", Pile::kTemporary, Bytes(40)});
  NodeId root_ = 0;
};

TEST_F(PeakTest, ForwardPeaksInItsLastLayer) {
  const PeakMoment moment = find_peak(program_, root_, Phase::kForward);
  EXPECT_EQ(moment.height, 1'020);
  EXPECT_EQ(moment.alive, (std::vector<std::int64_t>{1, 4, 0}));
  EXPECT_EQ(moment.piles[Pile::kActivations], Bytes(20));
  EXPECT_EQ(moment.allocating, kept_);
  EXPECT_NE(path_of(moment).find("layer 3/4"), std::string::npos) << path_of(moment);
}

// All three micro-batches reach the same height: the first is named.
TEST_F(PeakTest, BackwardPeaksInItsFirstLayerOfTheFirstMicroBatch) {
  const PeakMoment moment = find_peak(program_, root_, Phase::kBackward);
  EXPECT_EQ(moment.height, 1'060);
  EXPECT_EQ(moment.alive, (std::vector<std::int64_t>{1, 4, 1}));
  EXPECT_EQ(moment.allocating, moment_);
  EXPECT_NE(path_of(moment).find("micro-batch 0/3"), std::string::npos) << path_of(moment);
  EXPECT_NE(path_of(moment).find("layer 0/4"), std::string::npos) << path_of(moment);
}

TEST_F(PeakTest, PilesAloneAreTheSame) {
  for (const Phase phase : {Phase::kLoad, Phase::kForward, Phase::kBackward})
    EXPECT_EQ(piles_at_peak(program_, root_, phase), find_peak(program_, root_, phase).piles);
}

TEST_F(PeakTest, APhaseThatDoesNotOccurHasNone) {
  EXPECT_EQ(find_peak(program_, root_, Phase::kCheckpoint).height, kNoPeak);
  EXPECT_EQ(piles_at_peak(program_, root_, Phase::kCheckpoint), Piles{});
}

TEST_F(PeakTest, WhatIsThereInTheEnd) {
  EXPECT_EQ(net_instances(program_, root_), (std::vector<std::int64_t>{1, 0, 0}));
}

TEST(Piles, AddAndSubtractPileByPile) {
  Piles a, b;
  a[Pile::kGradients] = Bytes(3);
  b[Pile::kGradients] = Bytes(5);
  b[Pile::kMasterWeights] = Bytes(7);
  EXPECT_EQ((b - a)[Pile::kGradients], Bytes(2));
  EXPECT_EQ((a - b)[Pile::kMasterWeights], Bytes(-7));  // a deficit is a number too
  EXPECT_EQ((a + b).total(), Bytes(15));
  EXPECT_EQ((b * Checked(3)).total(), Bytes(36));
}

}  // namespace
}  // namespace steelyard
