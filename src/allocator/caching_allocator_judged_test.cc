// Random requests under many settings: every address, every statistic and every peak is the judge's, to the byte.
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "allocator/caching_allocator.h"
#include "allocator/plain_allocator.h"

namespace steelyard {
namespace {

struct World {
  const char* name;
  const char* settings;
  std::int64_t mebibytes;  // of the device
  int events;
  bool other_streams;
  bool fills;  // so small that requests are tried again and refused
};

class Judged : public testing::TestWithParam<World> {
 protected:
  // A few sizes come again and again, as in training; the others are anything, most of them small.
  std::int64_t some_size() {
    if (pick(3) != 0) return usual_[pick(usual_.size())];
    const auto bits = static_cast<int>(8 + pick(19));
    return 1 + static_cast<std::int64_t>(random_() % (std::uint64_t{1} << bits));
  }
  std::size_t pick(std::size_t below) { return static_cast<std::size_t>(random_() % below); }

  std::mt19937_64 random_;
  std::vector<std::int64_t> usual_;
};

TEST_P(Judged, AgreesToTheByte) {
  const World& world = GetParam();
  const auto settings = read_allocator_settings(world.settings, "test");
  ASSERT_TRUE(settings);
  const DeviceMemory device{Bytes(world.mebibytes << 20), 32_MiB};
  std::int64_t retries = 0, refused = 0;
  for (int seed = 1; seed <= 4; ++seed) {
    random_.seed(static_cast<std::uint64_t>(seed));
    usual_ = {512, 4 << 10, 1 << 20, (1 << 20) + 512, 8 << 20, 16 << 20, 24 << 20, (64 << 20) + 3};
    for (int i = 0; i < 6; ++i) usual_.push_back(some_size());
    CachingAllocator fast(*settings, device);
    PlainAllocator judge(*settings, device);
    std::vector<BlockIndex> live;
    // Waves of growth and of shrinking, so that the device fills and empties.
    for (int event = 0; event < world.events / 4; ++event) {
      const bool grows = (event / 1'000) % 2 == 0;
      if (live.empty() || pick(10) < (grows ? 6U : 4U)) {
        const std::int64_t size = some_size();
        const auto stream = static_cast<StreamId>(world.other_streams ? pick(3) : 0);
        const auto block = fast.allocate(Bytes(size), stream);
        const auto address = judge.allocate(size, stream);
        ASSERT_EQ(block.has_value(), address.has_value()) << event;
        if (!block) {
          ++refused;
          for (int i = 0; i < 20 && !live.empty(); ++i) {
            const std::size_t which = pick(live.size());
            judge.free(fast.address_of(live[which]));
            fast.free(live[which]);
            live.erase(live.begin() + static_cast<std::ptrdiff_t>(which));
          }
        } else {
          ASSERT_EQ(fast.address_of(*block), *address) << event;
          live.push_back(*block);
        }
      } else {
        const std::size_t which = pick(4) == 0 ? pick(live.size()) : live.size() - 1;
        const BlockIndex block = live[which];
        live.erase(live.begin() + static_cast<std::ptrdiff_t>(which));
        const std::int64_t address = fast.address_of(block);
        while (world.other_streams && pick(3) == 0) {
          const auto user = static_cast<StreamId>(pick(4));
          fast.record_stream(block, user);
          judge.record_stream(address, user);
        }
        fast.free(block);
        judge.free(address);
      }
      if (world.other_streams && pick(4) == 0) {
        const auto stream = static_cast<StreamId>(pick(4));
        const std::size_t behind = pick(3);
        fast.catch_up(stream, behind);
        judge.catch_up(stream, behind);
      }
      if (pick(997) == 0) {
        fast.empty_cache();
        judge.empty_cache();
      }
      ASSERT_EQ(fast.statistics(), judge.statistics()) << event;
      if (event % 64 == 0) {
        ASSERT_EQ(fast.segments(), judge.segments()) << event;
      }
    }
    retries += fast.statistics().retries;
  }
  EXPECT_EQ(world.fills, retries > 0);
  EXPECT_EQ(world.fills, refused > 0);
}

constexpr World kWorlds[] = {
    {"Defaults", "", 1 << 20, 100'000, false, false},
    {"DefaultsOnAFullDevice", "", 700, 100'000, false, true},
    {"Streams", "", 900, 80'000, true, true},
    {"Roundup", "roundup_power2_divisions:[1:8,4:1,16:4,>:2]", 1024, 40'000, false, true},
    {"RoundupOfAll", "roundup_power2_divisions:8", 1024, 40'000, true, true},
    {"MaxSplitSize", "max_split_size_mb:20", 600, 80'000, true, true},
    {"MaxSplitSizeWithTightRounding", "max_split_size_mb:21,max_non_split_rounding_mb:20", 800,
     40'000, false, true},
    {"SegmentsAboveMaxSplitSize", "max_split_size_mb:20,large_segment_size_mb:64", 900, 40'000,
     false, true},
    {"SmallSegments", "large_segment_size_mb:12", 600, 40'000, true, true},
    {"Fraction", "per_process_memory_fraction:0.5", 1400, 40'000, false, true},
    {"Garbage", "per_process_memory_fraction:0.8,garbage_collection_threshold:0.5", 1200, 80'000,
     true, true},
    {"GarbageAndMaxSplitSize",
     "per_process_memory_fraction:0.9,garbage_collection_threshold:0.3,max_split_size_mb:30", 900,
     40'000, false, true},
    {"Expandable", "expandable_segments:True", 1 << 20, 100'000, false, false},
    {"ExpandableOnAFullDevice", "expandable_segments:True", 700, 80'000, false, true},
    {"ExpandableStreams", "expandable_segments:True", 900, 80'000, true, true},
    {"ExpandableWithAll",
     "expandable_segments:True,max_split_size_mb:40,roundup_power2_divisions:4,"
     "per_process_memory_fraction:0.7,garbage_collection_threshold:0.5,large_segment_size_mb:32",
     1300, 80'000, true, true},
};

INSTANTIATE_TEST_SUITE_P(Worlds, Judged, testing::ValuesIn(kWorlds),
                         [](const auto& world) { return std::string(world.param.name); });

}  // namespace
}  // namespace steelyard
