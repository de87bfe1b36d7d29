// Each rule of attribution on a history of a few events, and the sum that always holds.
#include "diagnose/attribution.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "evidence/snapshot_pickle.h"

namespace steelyard {
namespace {

constexpr std::int64_t kMega = std::int64_t{1} << 20;

// A history built by hand: stacks by name, events in order.
class SmallHistory {
 public:
  SmallHistory() { history_.devices.resize(1); }
  std::int32_t stack(std::vector<RecordedFrame> frames) {
    for (RecordedFrame& frame : frames) {
      history_.stack_frames.push_back(static_cast<std::int32_t>(history_.frames.size()));
      history_.frames.push_back(std::move(frame));
    }
    history_.stack_begins.push_back(history_.stack_frames.size());
    return static_cast<std::int32_t>(history_.stacks() - 1);
  }
  void alloc(std::int64_t address, std::int64_t size, std::int32_t of) {
    history_.devices[0].events.push_back(
        {address, size, ++time_, of, 0, RecordedAction::kAlloc, 0});
    live_[address] = size;
  }
  // A block that is older than the history.
  void old(std::int64_t address, std::int64_t size) { live_[address] = size; }
  void release(std::int64_t address) {
    history_.devices[0].events.push_back(
        {address, live_[address], ++time_, 0, 0, RecordedAction::kFreeCompleted, 0});
    live_.erase(address);
  }
  void fail(std::int64_t size, std::int32_t of) {
    history_.devices[0].failures.push_back({history_.devices[0].events.size(), kMega});
    history_.devices[0].events.push_back({0, size, ++time_, of, 0, RecordedAction::kOom, 0});
  }
  // `room`: of a segment in which nothing lies any more.
  const MemoryHistory& finish(std::int64_t room = 0) {
    if (room > 0)
      history_.devices[0].segments.push_back(
          {0,
           std::int64_t{1} << 50,
           room,
           0,
           false,
           false,
           false,
           {{std::int64_t{1} << 50, room, room, 0, RecordedBlock::State::kInactive}}});
    for (const auto& [address, size] : live_)
      history_.devices[0].segments.push_back(
          {0,
           address,
           size,
           0,
           false,
           false,
           false,
           {{address, size, size, 0, RecordedBlock::State::kAllocated}}});
    return history_;
  }

 private:
  MemoryHistory history_;
  std::map<std::int64_t, std::int64_t> live_;
  std::int64_t time_ = 0;
};

Attribution attributed(const MemoryHistory& history) {
  const std::vector<DeviceMoment> moments = replay_to_moment(history);
  EXPECT_FALSE(moments.empty());
  EXPECT_TRUE(moments[0].consistent) << moments[0].why;
  Attribution attribution = attribute(history, moments[0], {});
  EXPECT_EQ(attribution.piles.total() + attribution.unaccounted, Bytes(moments[0].live));
  Bytes ruled{};
  for (const Bytes bytes : attribution.by_rule) ruled += bytes;
  EXPECT_EQ(ruled, Bytes(moments[0].live));
  EXPECT_EQ(attribution.by_rule[8], attribution.unaccounted);
  return attribution;
}

TEST(Attribution, FramesThreadsAndLifetimesDecide) {
  SmallHistory small;
  const std::int32_t load = small.stack({{"_apply", "/lib/torch/nn/modules/module.py", 930}});
  const std::int32_t forward = small.stack({{"forward", "/home/model.py", 7}});
  const std::int32_t state = small.stack({{"_init_group", "/lib/torch/optim/adam.py", 178}});
  const std::int32_t step = small.stack({{"_multi_tensor_adam", "/lib/torch/optim/adam.py", 789}});
  small.alloc(1 * 64 * kMega, 8 * kMega, load);
  small.alloc(2 * 64 * kMega, 16 * kMega, forward);
  small.alloc(3 * 64 * kMega, 8 * kMega, 0);  // autograd's thread has no Python frames
  small.release(2 * 64 * kMega);
  small.alloc(4 * 64 * kMega, 8 * kMega, state);
  small.alloc(5 * 64 * kMega, 8 * kMega, state);
  small.alloc(6 * 64 * kMega, 4 * kMega, step);
  small.fail(8 * kMega, step);
  const Attribution attribution = attributed(small.finish());
  EXPECT_EQ(attribution.piles[Pile::kParameters], Bytes(8 * kMega));
  EXPECT_EQ(attribution.piles[Pile::kGradients], Bytes(8 * kMega));
  EXPECT_EQ(attribution.piles[Pile::kOptimizerMoments], Bytes(16 * kMega));
  EXPECT_EQ(attribution.piles[Pile::kTemporary], Bytes(4 * kMega));
  EXPECT_EQ(attribution.piles[Pile::kActivations], Bytes());
  EXPECT_EQ(attribution.part, RunPart::kOptimizerStep);
  EXPECT_EQ(attribution.by_rule[1], Bytes(28 * kMega));  // A2: loader, optimizer
  EXPECT_EQ(attribution.by_rule[3], Bytes(8 * kMega));   // A4: the thread's gradient
}

TEST(Attribution, ActivationsAreForwardsThatLive) {
  SmallHistory small;
  const std::int32_t load = small.stack({{"_apply", "/lib/torch/nn/modules/module.py", 930}});
  const std::int32_t forward = small.stack({{"forward", "/home/model.py", 7}});
  small.alloc(1 * 64 * kMega, 8 * kMega, load);
  small.alloc(2 * 64 * kMega, 16 * kMega, forward);
  small.alloc(3 * 64 * kMega, 16 * kMega, forward);
  small.fail(16 * kMega, forward);
  const Attribution attribution = attributed(small.finish());
  EXPECT_EQ(attribution.piles[Pile::kActivations], Bytes(32 * kMega));
  EXPECT_EQ(attribution.part, RunPart::kForward);
}

// `state["m"] = b * state["m"] + (1 - b) * grad`: what the step replaces is a moment, what goes all at once is a gradient.
TEST(Attribution, AnOptimizerOfYourOwnReplacesItsMoments) {
  SmallHistory small;
  const std::int32_t forward = small.stack({{"forward", "/home/model.py", 7}});
  const std::int32_t product = small.stack({{"step", "/home/optimizer.py", 71}});
  const std::int32_t first = small.stack({{"step", "/home/optimizer.py", 72}});
  const std::int32_t second = small.stack({{"step", "/home/optimizer.py", 74}});
  constexpr std::int64_t kPlace = 64 * kMega;
  for (std::int64_t parameter = 0; parameter < 5; ++parameter)
    for (std::int64_t block = 0; block < 4; ++block)  // itself, two moments, a gradient
      small.old((1 + 4 * parameter + block) * kPlace, 8 * kMega);
  small.alloc(40 * kPlace, 32 * kMega, forward);
  small.release(40 * kPlace);
  std::int64_t next = 50;
  for (std::int64_t parameter = 0; parameter < 5; ++parameter)
    for (const std::int64_t block : {1, 2}) {
      small.alloc(++next * kPlace, 8 * kMega, product);
      small.alloc(++next * kPlace, 8 * kMega, block == 1 ? first : second);
      small.release((1 + 4 * parameter + block) * kPlace);
      small.release((next - 1) * kPlace);
    }
  small.alloc(++next * kPlace, 8 * kMega, forward);
  for (std::int64_t parameter = 0; parameter < 5; ++parameter)
    small.release((1 + 4 * parameter + 3) * kPlace);
  const Attribution attribution = attributed(small.finish(512 * kMega));
  EXPECT_EQ(attribution.piles[Pile::kParameters], Bytes(5 * 8 * kMega));
  EXPECT_EQ(attribution.piles[Pile::kOptimizerMoments], Bytes(10 * 8 * kMega));
  EXPECT_EQ(attribution.piles[Pile::kGradients], Bytes(5 * 8 * kMega));
  EXPECT_TRUE(attribution.moments_before_history);
}

// What nothing is known of is not distributed.
TEST(Attribution, TheUnknownStaysUnaccounted) {
  SmallHistory small;
  const std::int32_t load = small.stack({{"_apply", "/lib/torch/nn/modules/module.py", 930}});
  const std::int32_t script = small.stack({{"<module>", "/home/train.py", 3}});
  small.alloc(1 * 64 * kMega, 8 * kMega, load);
  small.alloc(2 * 64 * kMega, 4 * kMega, script);
  small.fail(16 * kMega, script);
  EXPECT_EQ(attributed(small.finish()).unaccounted, Bytes(4 * kMega));
}

// Recorded by real PyTorch: piles sum to the live bytes, and most have a pile.
TEST(Attribution, RecordedSnapshotsAddUp) {
  for (const char* name : {"llama.pickle", "llama-expandable.pickle", "fsdp2-8.pickle"}) {
    std::ifstream file(std::filesystem::path("truth/snapshots") / name, std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    ASSERT_FALSE(bytes.empty());
    const auto history = read_snapshot_pickle(bytes, name);
    ASSERT_TRUE(history) << history.error().front().message;
    attributed(*history);
  }
}

}  // namespace
}  // namespace steelyard
