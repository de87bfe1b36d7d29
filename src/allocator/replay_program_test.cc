// Small programs, with the reserved bytes worked out by hand. Sizes in comments are MiB.
#include "allocator/replay_program.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "allocator/replay_history.h"
#include "allocator/slot_streams.h"

namespace steelyard {
namespace {

class ReplayProgramTest : public testing::Test {
 protected:
  SlotId slot(std::int64_t mebibytes, const char* rule = "r", Pile pile = Pile::kActivations) {
    return program_.slot({"o", "s", rule, pile, Bytes(mebibytes << 20)});
  }
  NodeId tape(std::vector<Event> events, Phase phase = Phase::kForward) {
    return program_.tape(phase, "", events);
  }
  NodeId forward(std::vector<NodeId> parts) { return program_.sequence("forward", parts); }
  NodeId backward(std::vector<NodeId> parts) { return program_.sequence("backward", parts); }
  static const PhaseReserve& of(const ProgramReserve& reserve, Phase phase) {
    return reserve.phases[static_cast<std::size_t>(phase)];
  }

  Program program_;
};

// Parameters of 30 and 10; a layer keeps 12 and needs 16 for a moment, three times. The first 16 have their segment and
// are cached, so the second layer's 12 cut it: of 16, 4 are left. Segments: 30 10 | 12 16 | the second 16 | the
// third layer's 12 cut that too | the third 16.
TEST_F(ReplayProgramTest, ASmallStep) {
  const SlotId weights = slot(30), embedding = slot(10), kept = slot(12), passing = slot(16);
  const NodeId load = tape({{weights, 1}, {embedding, 1}}, Phase::kLoad);
  const NodeId layers = program_.repeat("layer", tape({{kept, 1}, {passing, 1}, {passing, -1}}), 3);
  const NodeId back = program_.repeat("layer", tape({{kept, -1}}, Phase::kBackward), 3);
  const StepPlan plan{{load, forward({layers}), backward({back})},
                      {forward({layers}), backward({back})}};
  const ProgramReserve reserve = replay_in_allocator(program_, plan);
  EXPECT_EQ(of(reserve, Phase::kLoad).reserved, 40_MiB);
  EXPECT_EQ(of(reserve, Phase::kForward).allocated, 92_MiB);  // 40 + 3 x 12 + 16
  EXPECT_EQ(of(reserve, Phase::kForward).reserved, 100_MiB);  // 40 + 12 + 16 + 16 + 16
  EXPECT_EQ(of(reserve, Phase::kForward).slack_at_peak(), 8_MiB);
  EXPECT_FALSE(of(reserve, Phase::kOptimizer).occurs);
  EXPECT_TRUE(reserve.settled);
  EXPECT_EQ(reserve.reserved_after, (std::vector<Bytes>{100_MiB, 100_MiB}));
  EXPECT_FALSE(reserve.out_of_memory);
}

// The same step where nobody asks for more than 90: it ends with the segment that is too much. 100 are not too much.
TEST_F(ReplayProgramTest, EndsWhereMoreIsReservedThanWasAskedFor) {
  const SlotId weights = slot(30), embedding = slot(10), kept = slot(12), passing = slot(16);
  const NodeId load = tape({{weights, 1}, {embedding, 1}}, Phase::kLoad);
  const NodeId layers = program_.repeat("layer", tape({{kept, 1}, {passing, 1}, {passing, -1}}), 3);
  const NodeId back = program_.repeat("layer", tape({{kept, -1}}, Phase::kBackward), 3);
  const StepPlan plan{{load, forward({layers}), backward({back})},
                      {forward({layers}), backward({back})}};
  ReplayLimits limits;
  limits.reserved = 90 << 20;
  EXPECT_TRUE(replay_in_allocator(program_, plan, {}, {}, {}, limits).is_over);
  limits.reserved = 100 << 20;
  const ProgramReserve whole = replay_in_allocator(program_, plan, {}, {}, {}, limits);
  EXPECT_FALSE(whole.is_over);
  EXPECT_EQ(whole.reserved_after, (std::vector<Bytes>{100_MiB, 100_MiB}));
  // Where the limit of events may come first, that one counts.
  limits.reserved = 90 << 20;
  limits.events = 100;
  const ProgramReserve limited = replay_in_allocator(program_, plan, {}, {}, {}, limits);
  EXPECT_FALSE(limited.is_over);
}

// A buffer's parts of 10, twice 30, and 20 are one block of 90, which serves 80 when they are gone. Apart they leave segments
// too small for that.
TEST_F(ReplayProgramTest, PartsOfOneTensorAreOneBlock) {
  const SlotId embedding = slot(10), layer = slot(30), head = slot(20), later = slot(80);
  const NodeId load = tape({{embedding, 1}, {layer, 2}, {head, 1}}, Phase::kLoad);
  const NodeId after =
      tape({{head, -1}, {layer, -2}, {embedding, -1}, {later, 1}}, Phase::kForward);
  std::vector<SlotTensors> tensors(3);
  for (SlotTensors& part : tensors) part.joined = 1;
  const ProgramReserve joined = replay_in_allocator(program_, {{load, after}, {}}, {}, {}, tensors);
  EXPECT_EQ(of(joined, Phase::kLoad).reserved, 90_MiB);
  EXPECT_EQ(of(joined, Phase::kForward).reserved, 90_MiB);
  const ProgramReserve apart = replay_in_allocator(program_, {{load, after}, {}});
  EXPECT_EQ(of(apart, Phase::kForward).reserved, of(apart, Phase::kLoad).reserved + 80_MiB);
}

// What is cached goes back where an engine empties the cache; what is held stays.
TEST_F(ReplayProgramTest, AnEmptiedCacheGivesSegmentsBack) {
  const SlotId held = slot(30), moving = slot(100), weights = slot(50),
               emptied = slot(0, "allocator.emptied-cache");
  const NodeId load =
      tape({{held, 1}, {moving, 1}, {moving, -1}, {emptied, 1}, {emptied, -1}}, Phase::kLoad);
  const ProgramReserve reserve = replay_in_allocator(program_, {{load, tape({{weights, 1}})}, {}});
  EXPECT_EQ(of(reserve, Phase::kLoad).reserved, 130_MiB);
  EXPECT_EQ(reserve.reserved_after.front(), 80_MiB);
}

// Each of three layers passes 16 to a collective and goes on with 2 launches. Two layers behind, the device has passed the
// first layer when the third asks: two blocks of 16 take turns. Three behind, each layer needs its own. In the first
// step, and where nobody records, one is enough. On a device with room for one alone, the allocator waits.
TEST_F(ReplayProgramTest, WhatACollectiveUsedComesBackWhenTheDeviceHasPassed) {
  const SlotId passing = slot(16);
  const NodeId layer = tape({{passing, 1}, {passing, -1}});
  const NodeId step = forward({program_.repeat("layer", layer, 3)});
  std::vector<SlotTensors> tensors(1);
  tensors[0].exchanged = Exchanged::kWaitedFor;
  const auto reserved = [&](std::int64_t depth, Exchanged recorded, const DeviceMemory& device) {
    LaunchQueue queue{depth, {}, recorded};
    queue.launches.resize(static_cast<std::size_t>(layer) + 1);
    queue.launches.back() = 2;
    const ProgramReserve reserve =
        replay_in_allocator(program_, {{step}, {step}}, {}, device, tensors, {}, nullptr, queue);
    EXPECT_EQ(reserve.reserved_after.front(), 16_MiB);
    EXPECT_FALSE(reserve.out_of_memory);
    return Bytes(reserve.statistics.all.reserved.bytes.peak);
  };
  EXPECT_EQ(reserved(0, Exchanged::kWaitedFor, {}), 16_MiB);
  EXPECT_EQ(reserved(3, Exchanged::kWaitedFor, {}), 32_MiB);
  EXPECT_EQ(reserved(5, Exchanged::kWaitedFor, {}), 48_MiB);
  EXPECT_EQ(reserved(1024, Exchanged::kWaitedFor, {}), 48_MiB);
  EXPECT_EQ(reserved(1024, Exchanged::kBeside, {}), 16_MiB);
  EXPECT_EQ(reserved(1024, Exchanged::kWaitedFor, {20_MiB, Bytes{}}), 16_MiB);
}

// Two micro-batches in flight. a1 k1 a2 lie in a segment of 20, 5 each; the first backward frees a1, so that 5 and 5 are
// free apart and 9 need another segment. Newest first would have freed a2, which joins the rest: 10.
TEST_F(ReplayProgramTest, TheOldestMicroBatchGoesFirst) {
  const SlotId a = slot(5), k = slot(5), passing = slot(9);
  const StepPlan plan{
      {forward({tape({{a, 1}, {k, 1}})}), forward({tape({{a, 1}})}),
       backward({tape({{a, -1}, {passing, 1}, {passing, -1}}, Phase::kBackward)}),
       backward({tape({{a, -1}}, Phase::kBackward)}), tape({{k, -1}}, Phase::kOptimizer)},
      {}};
  EXPECT_EQ(replay_in_allocator(program_, plan).statistics.all.reserved.bytes.peak, 40 << 20);
  const StepPlan without{{tape({{a, 1}, {k, 1}}), tape({{a, 1}}),
                          tape({{a, -1}, {passing, 1}, {passing, -1}}, Phase::kBackward)},
                         {}};
  EXPECT_EQ(replay_in_allocator(program_, without).statistics.all.reserved.bytes.peak, 20 << 20);
}

// A layer reads one and gives another: what it has read goes, and the block that it gave stands where it stood. The first
// layer's 5 free the beginning of the segment of 20, so that 5 and 5 are free apart and 9 need another one.
TEST_F(ReplayProgramTest, WhatATapePassesOnGoesOldestFirst) {
  const SlotId hidden = slot(5), kept = slot(5), passing = slot(9);
  const StepPlan plan{{forward({tape({{hidden, 1}, {kept, 1}}),
                                tape({{hidden, 1}, {hidden, -1}, {passing, 1}, {passing, -1}})})},
                      {}};
  EXPECT_EQ(replay_in_allocator(program_, plan).statistics.all.reserved.bytes.peak, 40 << 20);
}

TEST_F(ReplayProgramTest, StreamsOfCommunicationCacheForThemselves) {
  const SlotId gathered = slot(30, "fsdp2.all-gather-output", Pile::kCommunication);
  const SlotId shard = slot(30, "fsdp2.gradient-shard", Pile::kGradients);
  const SlotId kept = slot(30), input = slot(30, "fsdp2.reduce-scatter-input");
  EXPECT_EQ(stream_of(program_.slot_at(gathered)), kGatherStream);
  EXPECT_EQ(stream_of(program_.slot_at(shard)), kReduceStream);
  EXPECT_EQ(stream_of(program_.slot_at(kept)), kComputeStream);
  const NodeId step = tape({{gathered, 1},
                            {gathered, -1},
                            {kept, 1},
                            {kept, -1},
                            {input, 1},
                            {input, -1},
                            {shard, 1},
                            {shard, -1}});
  const ProgramReserve reserve = replay_in_allocator(program_, {{step}, {step}});
  EXPECT_EQ(reserve.reserved_after.back(), 90_MiB);
  EXPECT_EQ(reserve.fragmentation.returnable, 90_MiB);
}

// 12 as one tensor have their own segment; as 1 and 11 they take 2 and 12.
TEST_F(ReplayProgramTest, ASlotMayBeSeveralTensors) {
  const SlotId weights = slot(12);
  const StepPlan plan{{tape({{weights, 2}}, Phase::kLoad), tape({{weights, -2}})}, {}};
  EXPECT_EQ(replay_in_allocator(program_, plan).statistics.all.reserved.bytes.peak, 24 << 20);
  const ProgramReserve parted =
      replay_in_allocator(program_, plan, {}, {}, {{{{1_MiB}, {11_MiB}}, 0}});
  EXPECT_EQ(parted.statistics.all.reserved.bytes.peak, 26 << 20);  // 2 with both small ones, 12, 12
  EXPECT_EQ(parted.statistics.all.allocated.count.current, 0);
  EXPECT_EQ(parted.events, 8);
}

TEST_F(ReplayProgramTest, AFullDeviceRefuses) {
  const SlotId weights = slot(30), kept = slot(25);
  const ProgramReserve reserve = replay_in_allocator(
      program_, {{tape({{weights, 1}}, Phase::kLoad), tape({{kept, 1}})}, {}}, {}, {50_MiB, 0_B});
  ASSERT_TRUE(reserve.out_of_memory);
  EXPECT_EQ(reserve.refused, kept);
  EXPECT_EQ(reserve.out_of_memory->tried, 26_MiB);
  EXPECT_EQ(reserve.out_of_memory->free, 20_MiB);
  EXPECT_FALSE(reserve.settled);
}

TEST_F(ReplayProgramTest, ALimitOfEventsEndsIt) {
  const SlotId kept = slot(25);
  ReplayLimits limits;
  limits.events = 100;
  const ProgramReserve reserve =
      replay_in_allocator(program_, {{tape({{kept, 1'000}})}, {}}, {}, {}, {}, limits);
  EXPECT_FALSE(reserve.settled);
  EXPECT_TRUE(reserve.cut);
  EXPECT_EQ(reserve.events, 101);
}

// Where each request was made, and that what is seen is what the allocator did: played again it gives the same numbers.
class Notes : public ProgramWatcher {
 public:
  void begin_step(int step) override { text_ += "step " + std::to_string(step) + "\n"; }
  void enter(const Node& node, std::int64_t round) override {
    path_.push_back(std::string(node.label) + "/" + std::to_string(round) + " ");
  }
  void leave() override { path_.pop_back(); }
  void played(SlotId slot, Phase, std::span<const HistoryEvent> events) override {
    for (const std::string& place : path_) text_ += place;
    text_ += "slot " + std::to_string(slot) + ":";
    for (const HistoryEvent& event : events) text_ += " " + std::string(name_of(event.action));
    text_ += "\n";
    events_.insert(events_.end(), events.begin(), events.end());
  }
  const std::string& text() const { return text_; }
  const std::vector<HistoryEvent>& events() const { return events_; }

 private:
  std::vector<std::string> path_;
  std::string text_;
  std::vector<HistoryEvent> events_;
};

TEST_F(ReplayProgramTest, AWatcherSeesEveryRound) {
  const SlotId kept = slot(12);
  const NodeId layers =
      program_.repeat("layer", program_.tape(Phase::kForward, "mlp", {{{kept, 1}}}), 2);
  const NodeId back =
      program_.repeat("layer", program_.tape(Phase::kBackward, "mlp", {{{kept, -1}}}), 2);
  const NodeId step = program_.sequence("step", {forward({layers}), backward({back})});
  Notes notes;
  const ProgramReserve watched =
      replay_in_allocator(program_, {{step}, {step}}, {}, {}, {}, {}, &notes);
  EXPECT_EQ(notes.text(),
            "step 0\n"
            "step/0 forward/0 layer/0 mlp/0 slot 0: segment_alloc alloc\n"
            "step/0 forward/0 layer/1 mlp/0 slot 0: segment_alloc alloc\n"
            "step/0 backward/0 layer/0 mlp/0 slot 0: free_requested free_completed\n"
            "step/0 backward/0 layer/1 mlp/0 slot 0: free_requested free_completed\n"
            "step 1\n"
            "step/0 forward/0 layer/0 mlp/0 slot 0: alloc\n"
            "step/0 forward/0 layer/1 mlp/0 slot 0: alloc\n"
            "step/0 backward/0 layer/0 mlp/0 slot 0: free_requested free_completed\n"
            "step/0 backward/0 layer/1 mlp/0 slot 0: free_requested free_completed\n");
  const HistoryReplay again = replay_history(notes.events());
  EXPECT_EQ(again.first_difference, "");
  EXPECT_EQ(again.statistics.all.reserved.bytes, watched.statistics.all.reserved.bytes);
  ASSERT_EQ(watched.segments.size(), 2U);
  EXPECT_EQ(watched.segments[0].size, 12_MiB);
}

// Random steps: layers that keep and pass tensors, and backward that undoes them, under many micro-batches.
class RandomSteps : public testing::TestWithParam<int> {
 protected:
  struct Step {
    NodeId load, forward, backward;
  };
  std::size_t pick(std::size_t below) { return static_cast<std::size_t>(random_() % below); }
  Step some_step() {
    std::vector<SlotId> slots;
    for (int i = 0; i < 12; ++i)
      slots.push_back(program_.slot(
          {"o", "s", pick(5) == 0 ? "fsdp2.all-gather-output" : "r", Pile::kActivations,
           Bytes(512 * (1 + static_cast<std::int64_t>(pick(std::size_t{1} << pick(17)))))}));
    std::vector<Event> ahead, back;
    for (int i = 0; i < 30; ++i) {
      const SlotId slot = slots[pick(slots.size())];
      const SlotId passing = slots[pick(slots.size())];
      ahead.push_back({slot, 1});
      ahead.push_back({passing, 1});
      ahead.push_back({passing, -1});
      back.push_back({slot, -1});
      back.push_back({passing, 1});
      back.push_back({passing, -1});
    }
    const auto layers = static_cast<std::int64_t>(1 + pick(6));
    const std::vector<Event> held = {{slots[0], 3}, {slots[1], 2}};
    const NodeId ahead_layers =
        program_.repeat("layer", program_.tape(Phase::kForward, "", ahead), layers);
    const NodeId back_layers =
        program_.repeat("layer", program_.tape(Phase::kBackward, "", back), layers);
    return {program_.tape(Phase::kLoad, "", held), program_.sequence("forward", {ahead_layers}),
            program_.sequence("backward", {back_layers})};
  }

  Program program_;
  std::mt19937_64 random_;
};

// What is asked for is what the program holds, moment by moment; and micro-batches that are skipped would have changed
// nothing.
TEST_P(RandomSteps, SkippedMicroBatchesChangeNothing) {
  random_.seed(static_cast<std::uint64_t>(GetParam()));
  AllocatorSettings settings;
  settings.expandable_segments = pick(3) == 0;
  const Step step = some_step();
  const NodeId both = program_.sequence("", {step.forward, step.backward});
  const NodeId in_flight = program_.sequence(
      "",
      {step.forward, program_.repeat("m", program_.sequence("", {step.forward, step.backward}), 40),
       step.backward});
  const NodeId folded = program_.sequence("", {program_.repeat("m", both, 60), in_flight});
  std::vector<NodeId> unfolded(60, both);
  unfolded.push_back(step.forward);
  for (int round = 0; round < 40; ++round) {
    unfolded.push_back(step.forward);
    unfolded.push_back(step.backward);
  }
  unfolded.push_back(step.backward);
  const NodeId flat = program_.sequence("flat", unfolded);
  const ProgramReserve skipped =
      replay_in_allocator(program_, {{step.load, folded}, {folded}}, settings);
  const ProgramReserve whole = replay_in_allocator(program_, {{step.load, flat}, {flat}}, settings);
  EXPECT_LT(skipped.events, whole.events);
  EXPECT_EQ(skipped.reserved_after, whole.reserved_after);
  for (std::size_t phase = 0; phase < kPhaseCount; ++phase) {
    EXPECT_EQ(skipped.phases[phase].allocated, whole.phases[phase].allocated);
    EXPECT_EQ(skipped.phases[phase].reserved, whole.phases[phase].reserved);
  }
  const NodeId root = program_.sequence("", {step.load, folded});
  EXPECT_EQ(skipped.statistics.all.requested.peak, program_.span(root).highest());
  EXPECT_EQ(skipped.statistics.all.requested.current, program_.span(root).change);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomSteps, testing::Range(1, 41));

}  // namespace
}  // namespace steelyard
