#include "allocator/replay_history.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace steelyard {
namespace {

using enum HistoryAction;

// As PyTorch records it: cudaMalloc gave the second segment a lower address, so the lower one is taken again first.
TEST(ReplayHistory, FollowsTheRecordedAddresses) {
  const std::int64_t high = 0x7f4000000000, low = 0x7f2000000000;
  const std::vector<HistoryEvent> events = {
      {kSegmentAlloc, high, 32_MiB, 0},
      {kAlloc, high, Bytes((31 << 20) + 7), 0},
      {kSegmentAlloc, low, 32_MiB, 0},
      {kAlloc, low, 31_MiB, 0},
      {kFreeRequested, high, Bytes((31 << 20) + 7), 0},
      {kFreeCompleted, high, Bytes((31 << 20) + 7), 0},
      {kFreeRequested, low, 31_MiB, 0},
      {kFreeCompleted, low, 31_MiB, 0},
      {kAlloc, low, 30_MiB, 0},
      {kAlloc, high, 32_MiB, 0},
  };
  const HistoryReplay replay = replay_history(events);
  EXPECT_EQ(replay.first_difference, "");
  EXPECT_EQ(replay.requests, 4);
  EXPECT_EQ(replay.statistics.all.reserved.bytes.current, 64 << 20);
  EXPECT_EQ(replay.recorded_reserved.peak, 64 << 20);
}

TEST(ReplayHistory, SaysWhatDiffersFirst) {
  const std::vector<HistoryEvent> events = {
      {kSegmentAlloc, 0x1000, 20_MiB, 0},
      {kAlloc, 0x1000, 4_MiB, 0},
      {kAlloc, 0x1000 + (8 << 20), 4_MiB,
       0},  // PyTorch would have taken the place behind the first
      {kSegmentFree, 0x9000, 2_MiB, 0},
  };
  const HistoryReplay replay = replay_history(events);
  EXPECT_EQ(replay.differences, 2);
  EXPECT_EQ(replay.first_difference, "event 2: alloc at 0x801000 was played at 0x401000");
}

TEST(ReplayHistory, FreesOfWhatCameBeforeAreCounted) {
  const std::vector<HistoryEvent> events = {
      {kFreeRequested, 0x5000, 512_B, 0},
      {kFreeCompleted, 0x5000, 512_B, 0},
      {kFreeCompleted, 0x6000, 512_B, 0},
      {kOther, 0, 0_B, 0},
  };
  const HistoryReplay replay = replay_history(events);
  EXPECT_EQ(replay.unknown, 3);
  EXPECT_EQ(replay.differences, 0);
}

TEST(ReplayHistory, WordsOfPyTorch) {
  EXPECT_EQ(name_of(kFreeCompleted), "free_completed");
  EXPECT_EQ(history_action_named("segment_map"), kSegmentMap);
  EXPECT_EQ(history_action_named("oom"), kOther);
  EXPECT_EQ(history_action_named("malloc"), std::nullopt);
}

// Plays random requests on a small device while the allocator writes down what it does.
class Recorder {
 public:
  Recorder(const AllocatorSettings& settings, const DeviceMemory& device)
      : allocator_(settings, device) {
    allocator_.record_history(&events_);
  }

  void allocate(Bytes size, StreamId stream) {
    if (const auto block = allocator_.allocate(size, stream)) live_.push_back(*block);
  }
  void free(std::size_t which) {
    allocator_.free(live_[which]);
    live_.erase(live_.begin() + static_cast<std::ptrdiff_t>(which));
  }
  std::size_t live() const { return live_.size(); }
  const CachingAllocator& allocator() const { return allocator_; }
  const std::vector<HistoryEvent>& events() const { return events_; }

 private:
  CachingAllocator allocator_;
  std::vector<BlockIndex> live_;
  std::vector<HistoryEvent> events_;
};

TEST(ReplayHistory, ARecordOfAFullDeviceIsPlayedExactly) {
  std::mt19937_64 random(7);
  Recorder recorder({}, {500_MiB, 0_B});
  for (int event = 0; event < 20'000; ++event) {
    if (recorder.live() == 0 || random() % 100 < (event / 400 % 2 == 0 ? 60U : 42U))
      recorder.allocate(
          Bytes(1 + static_cast<std::int64_t>(random() % (1U << (random() % 18 + 8)))),
          static_cast<StreamId>(random() % 2));
    else
      recorder.free(random() % recorder.live());
  }
  EXPECT_GT(recorder.allocator().statistics().retries, 0);
  const HistoryReplay replay = replay_history(recorder.events());
  EXPECT_EQ(replay.first_difference, "");
  EXPECT_EQ(replay.statistics.all.reserved.bytes,
            recorder.allocator().statistics().all.reserved.bytes);
  EXPECT_EQ(replay.recorded_reserved.current, replay.statistics.all.reserved.bytes.current);
}

TEST(ReplayHistory, ARecordOfExpandableSegmentsIsPlayedExactly) {
  std::mt19937_64 random(9);
  AllocatorSettings settings;
  settings.expandable_segments = true;
  Recorder recorder(settings, {500_MiB, 0_B});
  for (int event = 0; event < 20'000; ++event) {
    if (recorder.live() == 0 || random() % 100 < (event / 400 % 2 == 0 ? 60U : 42U))
      recorder.allocate(
          Bytes(1 + static_cast<std::int64_t>(random() % (1U << (random() % 18 + 8)))), 0);
    else
      recorder.free(random() % recorder.live());
  }
  EXPECT_GT(recorder.allocator().statistics().retries, 0);
  const HistoryReplay replay = replay_history(recorder.events(), settings, {500_MiB, 0_B});
  EXPECT_EQ(replay.first_difference, "");
  EXPECT_EQ(replay.statistics.all.reserved.bytes.current,
            recorder.allocator().statistics().all.reserved.bytes.current);
}

TEST(ReplayHistory, ARecordThatContradictsItselfIsPlayedToItsEnd) {
  std::mt19937_64 random(11);
  std::vector<HistoryEvent> events;
  for (int event = 0; event < 20'000; ++event) {
    const auto address = static_cast<std::int64_t>(random() % 64) << 20;
    const auto size = static_cast<std::int64_t>(random() % (24 << 20));
    events.push_back({static_cast<HistoryAction>(random() % 8), address, Bytes(size),
                      static_cast<StreamId>(random() % 2)});
  }
  for (const bool expandable : {false, true}) {
    AllocatorSettings settings;
    settings.expandable_segments = expandable;
    const HistoryReplay replay = replay_history(events, settings);
    EXPECT_GT(replay.differences, 0);
    EXPECT_GE(replay.statistics.all.reserved.bytes.current,
              replay.statistics.all.allocated.bytes.current);
  }
}

}  // namespace
}  // namespace steelyard
