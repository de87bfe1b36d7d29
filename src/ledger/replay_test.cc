#include "ledger/replay.h"

#include <gtest/gtest.h>

#include <vector>

namespace steelyard {
namespace {

class ReplayTest : public testing::Test {
 protected:
  Program program_;
  SlotId a_ = program_.slot({"mlp", "gate", "r", Pile::kActivations, Bytes(512)});
  SlotId b_ = program_.slot({"mlp", "up", "r", Pile::kTemporary, Bytes(1'024)});
};

TEST_F(ReplayTest, WalksEveryEvent) {
  const std::vector<Event> events = {{a_, 1}, {b_, 2}, {b_, -2}};
  const NodeId root = program_.repeat("layer", program_.tape(Phase::kForward, "", events), 5);
  const Replay judged = replay(program_, root);
  EXPECT_EQ(judged.events, 15);
  EXPECT_EQ(judged.height, 5 * 512);
  EXPECT_EQ(judged.peak[static_cast<std::size_t>(Phase::kForward)], 5 * 512 + 2'048);
  EXPECT_EQ(judged.piles[static_cast<std::size_t>(Phase::kForward)][Pile::kTemporary],
            Bytes(2'048));
  EXPECT_EQ(judged.alive, (std::vector<std::int64_t>{5, 0}));
  EXPECT_TRUE(judged.fault.empty());
}

TEST_F(ReplayTest, NamesTheFirstThatIsFreedAndNotAlive) {
  const std::vector<Event> events = {{a_, 1}, {b_, -1}, {a_, -2}};
  const Replay judged = replay(program_, program_.tape(Phase::kBackward, "", events));
  EXPECT_EQ(judged.fault, "freed but not alive: mlp up");
}

TEST_F(ReplayTest, StartsFromWhatIsAlive) {
  const std::vector<Event> events = {{b_, -1}, {a_, 1}};
  const NodeId root = program_.tape(Phase::kBackward, "", events);
  const Replay judged = replay(program_, root, {0, 1});
  EXPECT_TRUE(judged.fault.empty());
  EXPECT_EQ(judged.height, 512);
  EXPECT_EQ(judged.peak[static_cast<std::size_t>(Phase::kBackward)], 1'024);
  EXPECT_EQ(judged.peak[static_cast<std::size_t>(Phase::kForward)], kNoPeak);
}

TEST_F(ReplayTest, RefusesToWrapAround) {
  const SlotId huge =
      program_.slot({"a", "huge", "r", Pile::kActivations, Bytes(std::int64_t{1} << 61)});
  EXPECT_THROW(program_.tape(Phase::kForward, "", std::vector<Event>{{huge, 4}}), OverflowError);
}

}  // namespace
}  // namespace steelyard
