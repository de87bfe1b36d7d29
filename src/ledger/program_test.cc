// Spans by hand, and spans of random programs against the replay of every event.
#include "ledger/program.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "ledger/replay.h"

namespace steelyard {
namespace {

constexpr std::size_t kForward = static_cast<std::size_t>(Phase::kForward);
constexpr std::size_t kBackward = static_cast<std::size_t>(Phase::kBackward);

// A program over three slots of 1, 10 and 100 bytes, so that a height reads as counts.
class ProgramTest : public testing::Test {
 protected:
  NodeId tape(std::vector<Event> events, Phase phase = Phase::kForward) {
    return program_.tape(phase, "", events);
  }

  Program program_;
  SlotId one_ = program_.slot({"a", "one", "r", Pile::kActivations, Bytes(1)});
  SlotId ten_ = program_.slot({"b", "ten", "r", Pile::kTemporary, Bytes(10)});
  SlotId hundred_ = program_.slot({"c", "hundred", "r", Pile::kParameters, Bytes(100)});
};

TEST_F(ProgramTest, ATapePeaksWhereItStandsHighest) {
  const Span& span = program_.span(tape({{one_, 3}, {ten_, 2}, {ten_, -2}, {one_, -1}}));
  EXPECT_EQ(span.peak[kForward], 23);
  EXPECT_EQ(span.change, 2);
  EXPECT_EQ(span.net[Pile::kActivations], Bytes(2));
  EXPECT_EQ(span.net[Pile::kTemporary], Bytes(0));
  EXPECT_EQ(span.peak[kBackward], kNoPeak);
  EXPECT_EQ(span.highest(), 23);
}

TEST_F(ProgramTest, ATapeThatOnlyFreesPeaksAtItsStart) {
  const Span& span = program_.span(tape({{hundred_, -1}, {one_, 5}}));
  EXPECT_EQ(span.peak[kForward], 0);
  EXPECT_EQ(span.change, -95);
}

TEST_F(ProgramTest, ASequenceLiftsWhatFollows) {
  const NodeId first = tape({{hundred_, 1}, {ten_, 5}, {ten_, -5}});  // to 150, ends at 100
  const NodeId second = tape({{one_, 7}, {hundred_, -1}}, Phase::kBackward);
  const Span& span = program_.span(program_.sequence("both", {first, second}));
  EXPECT_EQ(span.peak[kForward], 150);
  EXPECT_EQ(span.peak[kBackward], 107);
  EXPECT_EQ(span.change, 7);
}

TEST_F(ProgramTest, AGrowingBodyPeaksInItsLastRound) {
  const NodeId body = tape({{one_, 2}, {ten_, 1}, {ten_, -1}});
  const Span& span = program_.span(program_.repeat("layer", body, 1'000));
  EXPECT_EQ(span.change, 2'000);
  EXPECT_EQ(span.peak[kForward], 999 * 2 + 12);
}

TEST_F(ProgramTest, AShrinkingBodyPeaksInItsFirstRound) {
  const NodeId body = tape({{ten_, 1}, {ten_, -1}, {one_, -2}});
  const Span& span = program_.span(program_.repeat("layer", body, 1'000));
  EXPECT_EQ(span.change, -2'000);
  EXPECT_EQ(span.peak[kForward], 10);
}

TEST_F(ProgramTest, NothingRepeatedOrJoinedIsNothing) {
  const NodeId body = tape({{one_, 1}});
  EXPECT_EQ(program_.repeat("layer", body, 0), program_.empty());
  EXPECT_EQ(program_.repeat("layer", body, -3), program_.empty());
  EXPECT_EQ(program_.repeat("layer", program_.empty(), 5), program_.empty());
  EXPECT_EQ(program_.sequence("step", {program_.empty(), program_.empty()}), program_.empty());
  EXPECT_EQ(tape({}), program_.empty());
  EXPECT_EQ(program_.span(program_.empty()).highest(), kNoPeak);
}

TEST_F(ProgramTest, ASequenceOfOnePartWithoutALabelIsThatPart) {
  const NodeId body = tape({{one_, 1}});
  EXPECT_EQ(program_.sequence("", {program_.empty(), body}), body);
  EXPECT_NE(program_.sequence("step", {body}), body);
}

TEST_F(ProgramTest, AMomentHasItsPhaseAtTheHeightItFinds) {
  const NodeId root = program_.sequence(
      "", {tape({{hundred_, 2}}), program_.moment(Phase::kCheckpoint, "checkpoint")});
  EXPECT_EQ(program_.span(root).peak[static_cast<std::size_t>(Phase::kCheckpoint)], 200);
}

TEST_F(ProgramTest, CostsDoNotGrowWithRepeats) {
  const NodeId body = tape({{one_, 1}, {ten_, 1}, {ten_, -1}});
  const std::size_t before = program_.node_count();
  NodeId node = body;
  for (int level = 0; level < 6; ++level) node = program_.repeat("layer", node, 1'000);
  EXPECT_EQ(program_.node_count(), before + 6);
  EXPECT_EQ(program_.span(node).change, 1'000'000'000'000'000'000);
  EXPECT_THROW(program_.repeat("layer", node, 1'000), OverflowError);
}

TEST(Span, JoiningIsAssociative) {
  Span a, b, c;
  a.change = 5;
  a.peak[kForward] = 9;
  b.change = -7;
  b.peak[kForward] = 3;
  b.peak[kBackward] = 0;
  c.change = 2;
  c.peak[kBackward] = 11;
  const Span left = concatenate(concatenate(a, b), c), right = concatenate(a, concatenate(b, c));
  EXPECT_EQ(left.peak, right.peak);
  EXPECT_EQ(left.change, right.change);
  EXPECT_EQ(left.peak[kForward], 9);
  EXPECT_EQ(left.peak[kBackward], 9);  // 5 - 7 + 11
}

// Any tree of tapes, sequences and repeats.
class RandomProgram {
 public:
  explicit RandomProgram(unsigned seed) : random_(seed) {
    for (int slot = 0; slot < 6; ++slot)
      program_.slot({"slot", "", "r", static_cast<Pile>(slot), Bytes(number(1, 5'000))});
  }
  NodeId tree(int depth) {
    if (depth == 0 || number(0, 4) == 0) {
      std::vector<Event> events;
      for (std::int64_t i = number(0, 8); i > 0; --i)
        events.push_back(
            {static_cast<SlotId>(number(0, 5)), static_cast<std::int32_t>(number(-3, 4))});
      const auto phase = static_cast<Phase>(number(0, 4));
      return events.empty() ? program_.moment(phase, "") : program_.tape(phase, "", events);
    }
    if (number(0, 2) == 0) return program_.repeat("layer", tree(depth - 1), number(0, 5));
    std::vector<NodeId> parts;
    for (std::int64_t i = number(1, 4); i > 0; --i) parts.push_back(tree(depth - 1));
    return program_.sequence(number(0, 1) == 0 ? "" : "layers", parts);
  }
  const Program& program() const { return program_; }

 private:
  std::int64_t number(std::int64_t least, std::int64_t most) {
    return least +
           static_cast<std::int64_t>(random_() % static_cast<std::uint32_t>(most - least + 1));
  }
  std::mt19937 random_;
  Program program_;
};

TEST(Span, EqualsTheReplayOfRandomPrograms) {
  for (unsigned seed = 1; seed <= 2'000; ++seed) {
    RandomProgram random(seed);
    const NodeId root = random.tree(5);
    const Program& program = random.program();
    const Replay judged = replay(program, root);
    const Span& span = program.span(root);
    ASSERT_EQ(span.peak, judged.peak) << seed;
    ASSERT_EQ(span.change, judged.height) << seed;
    ASSERT_EQ(net_instances(program, root), judged.alive) << seed;
    for (std::size_t phase = 0; phase < kPhaseCount; ++phase) {
      if (judged.peak[phase] == kNoPeak) continue;
      const auto which = static_cast<Phase>(phase);
      ASSERT_EQ(piles_at_peak(program, root, which), judged.piles[phase]) << seed;
      const PeakMoment moment = find_peak(program, root, which);
      ASSERT_EQ(moment.height, judged.peak[phase]) << seed;
      ASSERT_EQ(moment.piles, judged.piles[phase]) << seed;
    }
  }
}

}  // namespace
}  // namespace steelyard
