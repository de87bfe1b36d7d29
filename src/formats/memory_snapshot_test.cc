// Snapshots are read back as they were written; recorded ones are played again by the simulated allocator.
#include "formats/memory_snapshot.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "allocator/replay_history.h"
#include "evidence/pickle_writer.h"

namespace steelyard {
namespace {

using enum HistoryAction;

MemorySnapshot small_snapshot() {
  MemorySnapshot snapshot;
  snapshot.frames = {{"output", "layers.0.mlp", 0}, {"op.linear.output", "docs/rules.md", 0}};
  snapshot.stacks = {{}, {0, 1}};
  snapshot.categories = {"activations", "unknown"};
  DeviceSnapshot device;
  const std::int64_t address = std::int64_t{1} << 40;
  device.segments.push_back({{address,
                              20_MiB,
                              1,
                              false,
                              Bytes{},
                              {{address, 4_MiB, Bytes((4 << 20) - 7), BlockUse::kUsed},
                               {address + (4 << 20), 16_MiB, Bytes{}, BlockUse::kFree}}},
                             1,
                             {1, 0}});
  device.events = {{kSegmentAlloc, address, 20_MiB, 1},
                   {kAlloc, address, Bytes((4 << 20) - 7), 1},
                   {kOther, 0, Bytes{}, 0}};
  device.notes = {{0, 1, -1}, {1, 1, 0}, {2, 0, 1}};
  snapshot.devices.push_back(device);
  snapshot.settings.max_split_size = 200_MiB;
  return snapshot;
}

TEST(MemorySnapshot, IsReadAsItWasWritten) {
  const MemorySnapshot written = small_snapshot();
  const auto read = read_memory_snapshot(memory_snapshot_pickle(written), "s.pickle");
  ASSERT_TRUE(read) << read.error().front().message;
  EXPECT_TRUE(*read == written);
}

// Lists go in portions of a thousand; one value more than that, and exactly that many.
TEST(MemorySnapshot, LongTracesAreReadWhole) {
  for (const std::size_t count : {999U, 1000U, 1001U, 3000U}) {
    MemorySnapshot written = small_snapshot();
    DeviceSnapshot& device = written.devices.front();
    device.events.resize(count, {kAlloc, 512, 512_B, 0});
    device.notes.resize(count);
    const auto read = read_memory_snapshot(memory_snapshot_pickle(written), "s.pickle");
    ASSERT_TRUE(read);
    EXPECT_EQ(read->devices.front().events.size(), count);
  }
}

std::string with(const std::string& key, std::int64_t value) {
  PickleWriter pickle;
  pickle.begin_dict();
  pickle.string("segments");
  pickle.begin_list();
  pickle.begin_dict();
  for (const char* name : {"address", "total_size", "stream"}) {
    pickle.string(name);
    pickle.integer(name == key ? value : 512);
  }
  pickle.string("blocks");
  pickle.begin_list();
  pickle.begin_dict();
  pickle.string("size");
  pickle.integer(512);
  pickle.string("state");
  pickle.string("inactive");
  pickle.end_dict();
  pickle.end_list();
  pickle.end_dict();
  pickle.end_list();
  pickle.end_dict();
  return std::move(pickle).finish();
}

TEST(MemorySnapshot, SaysWhatIsWrongAndWhere) {
  EXPECT_TRUE(read_memory_snapshot(with("", 0), "s.pickle"));
  const auto sized = read_memory_snapshot(with("total_size", -1), "s.pickle");
  ASSERT_FALSE(sized);
  EXPECT_EQ(sized.error().front().message, "\"total_size\" is -1, which is no size");
  EXPECT_EQ(sized.error().front().place.source.substr(0, 15), "s.pickle, byte ");
  const auto summed = read_memory_snapshot(with("total_size", 1024), "s.pickle");
  ASSERT_FALSE(summed);
  EXPECT_EQ(summed.error().front().message, "the blocks of a segment of 1024 bytes sum to 512");
  EXPECT_FALSE(read_memory_snapshot(with("address", -512), "s.pickle"));
}

TEST(MemorySnapshot, APickleOfSomethingElseIsNoSnapshot) {
  PickleWriter pickle;
  pickle.begin_list();
  pickle.end_list();
  const auto read = read_memory_snapshot(std::move(pickle).finish(), "list.pickle");
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().front().code, "E115");
}

// What PyTorch recorded (truth/snapshot.py), asked again of the simulated allocator: every block stands where PyTorch
// put it, and what is reserved never differs.
class RecordedSnapshots : public testing::TestWithParam<const char*> {};

TEST_P(RecordedSnapshots, ArePlayedToTheByte) {
  const std::string path = std::string("truth/snapshots/") + GetParam();
  std::ifstream file(path, std::ios::binary);
  ASSERT_TRUE(file) << path;
  const std::string bytes((std::istreambuf_iterator<char>(file)), {});
  const auto snapshot = read_memory_snapshot(bytes, path);
  ASSERT_TRUE(snapshot) << snapshot.error().front().message;
  const DeviceSnapshot& device = snapshot->devices.front();
  ASSERT_GT(device.events.size(), 1000U);
  DeviceMemory memory;
  memory.total = Bytes(2'000'000'000'000);
  const HistoryReplay replay = replay_history(device.events, snapshot->settings, memory);
  EXPECT_EQ(replay.first_difference, "");
  EXPECT_EQ(replay.unknown, 0);
  EXPECT_EQ(replay.statistics.all.reserved.bytes.peak, replay.recorded_reserved.peak);
  std::int64_t reserved = 0;
  for (const SnapshotSegment& segment : device.segments)
    reserved += segment.segment.size.value().value();
  EXPECT_EQ(replay.statistics.all.reserved.bytes.current, reserved);
}

INSTANTIATE_TEST_SUITE_P(PyTorch, RecordedSnapshots,
                         testing::Values("llama.pickle", "llama-expandable.pickle",
                                         "fsdp2-8.pickle"));

}  // namespace
}  // namespace steelyard
