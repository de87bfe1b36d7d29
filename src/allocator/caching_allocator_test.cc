// The rules one by one, with the reserved bytes worked out by hand. Sizes in comments are MiB.
#include "allocator/caching_allocator.h"

#include <gtest/gtest.h>

#include <string>

namespace steelyard {
namespace {

AllocatorSettings settings_of(const std::string& text) {
  const auto settings = read_allocator_settings(text, "test");
  EXPECT_TRUE(settings) << text;
  return *settings;
}

class CachingAllocatorTest : public testing::Test {
 protected:
  void use(const std::string& settings, const DeviceMemory& device = {}) {
    allocator_ = CachingAllocator(settings_of(settings), device);
  }
  BlockIndex take(Bytes size, StreamId stream = kDefaultStream) {
    const auto block = allocator_.allocate(size, stream);
    EXPECT_TRUE(block) << block.error().text();
    return block ? *block : kNoBlock;
  }
  std::int64_t address(BlockIndex block) const { return allocator_.address_of(block); }
  const PoolStatistics& all() const { return allocator_.statistics().all; }
  Bytes reserved() const { return Bytes(all().reserved.bytes.current); }
  Bytes allocated() const { return Bytes(all().allocated.bytes.current); }
  Bytes inactive_split() const { return Bytes(all().inactive_split.bytes.current); }

  CachingAllocator allocator_;
};

TEST_F(CachingAllocatorTest, SmallRequestsShareASegmentOf2MiB) {
  const BlockIndex one = take(1_B);
  take(513_B);
  EXPECT_EQ(allocator_.size_of(one), 512_B);
  EXPECT_EQ(all().requested.current, 514);
  EXPECT_EQ(allocated(), Bytes(512 + 1'024));
  EXPECT_EQ(reserved(), 2_MiB);
  EXPECT_EQ(inactive_split(), Bytes((2 << 20) - 512 - 1'024));
  take(1_MiB);  // the last small one; another segment would be needed for a second
  EXPECT_EQ(reserved(), 2_MiB);
  take(1_MiB);
  EXPECT_EQ(reserved(), 4_MiB);
  EXPECT_EQ(allocator_.statistics().small.reserved.count.current, 2);
  EXPECT_EQ(allocator_.statistics().large.reserved.count.current, 0);
}

TEST_F(CachingAllocatorTest, RequestsBelow10MiBShareSegmentsOf20MiB) {
  const BlockIndex first = take(5_MiB);
  const BlockIndex second = take(9_MiB);  // of the 15 that are left
  EXPECT_EQ(address(second), address(first) + (5 << 20));
  EXPECT_EQ(reserved(), 20_MiB);
  EXPECT_EQ(inactive_split(), 6_MiB);
  take(7_MiB);  // 6 are left: another 20
  EXPECT_EQ(reserved(), 40_MiB);
}

TEST_F(CachingAllocatorTest, LargerRequestsHaveTheirOwnSegment) {
  take(10_MiB);
  EXPECT_EQ(reserved(), 10_MiB);
  EXPECT_EQ(inactive_split(), 0_B);
  take(Bytes((10 << 20) + 1));  // 12; of the rest, 2 less 512, more than 1 is left: it is cut off
  EXPECT_EQ(reserved(), 22_MiB);
  EXPECT_EQ(allocated(), Bytes((20 << 20) + 512));
  EXPECT_EQ(inactive_split(), Bytes((2 << 20) - 512));
}

TEST_F(CachingAllocatorTest, ARestOfAMebibyteIsGivenAway) {
  take(19_MiB);  // a segment of 20: what would be left is not more than 1
  EXPECT_EQ(reserved(), 20_MiB);
  EXPECT_EQ(allocated(), 20_MiB);
  EXPECT_EQ(Bytes(all().requested.current), 19_MiB);
  EXPECT_EQ(inactive_split(), 0_B);
}

TEST_F(CachingAllocatorTest, TheSmallestBlockThatFitsIsTaken) {
  const BlockIndex big = take(40_MiB), fitting = take(30_MiB), same = take(30_MiB);
  const std::int64_t lower = address(fitting);
  for (BlockIndex block : {same, big, fitting}) allocator_.free(block);
  EXPECT_EQ(address(take(28_MiB)), lower);  // 30, not 40; of two 30 the lower one
  EXPECT_EQ(reserved(), 100_MiB);
}

TEST_F(CachingAllocatorTest, FreedNeighboursJoin) {
  const BlockIndex a = take(4_MiB), b = take(4_MiB), c = take(4_MiB);  // and 8 of the 20 are left
  allocator_.free(a);
  EXPECT_EQ(all().inactive_split.count.current, 2);
  allocator_.free(c);  // 4 + 8
  EXPECT_EQ(all().inactive_split.count.current, 2);
  EXPECT_EQ(inactive_split(), 16_MiB);
  allocator_.free(b);  // all 20: a whole segment is not split
  EXPECT_EQ(inactive_split(), 0_B);
  EXPECT_EQ(allocated(), 0_B);
  EXPECT_EQ(reserved(), 20_MiB);
  EXPECT_EQ(address(take(20_MiB)), std::int64_t{1} << 40);
}

TEST_F(CachingAllocatorTest, StreamsDoNotShareBlocks) {
  allocator_.free(take(30_MiB, 1));
  take(30_MiB, 0);
  EXPECT_EQ(reserved(), 60_MiB);
  take(30_MiB, 1);
  EXPECT_EQ(reserved(), 60_MiB);
}

TEST_F(CachingAllocatorTest, ABlockThatAnotherStreamUsesWaitsForIt) {
  const BlockIndex block = take(30_MiB);
  allocator_.record_stream(block, 0);  // its own: nothing
  allocator_.record_stream(block, 1);
  allocator_.record_stream(block, 2);
  allocator_.free(block);
  EXPECT_EQ(allocated(), 0_B);
  EXPECT_EQ(Bytes(all().active.bytes.current), 30_MiB);
  allocator_.catch_up(1);
  take(30_MiB);  // stream 2 is still at it
  EXPECT_EQ(reserved(), 60_MiB);
  allocator_.catch_up(2);
  take(30_MiB);  // notices
  EXPECT_EQ(reserved(), 60_MiB);
}

TEST_F(CachingAllocatorTest, EmptyCacheGivesBackWholeSegmentsOnly) {
  const BlockIndex half = take(8_MiB);
  const BlockIndex whole = take(50_MiB, 3);
  take(8_MiB);
  allocator_.free(half);
  allocator_.record_stream(whole, 1);
  allocator_.free(whole);  // waits for stream 1; empty_cache waits too
  allocator_.empty_cache();
  EXPECT_EQ(reserved(), 20_MiB);
  EXPECT_EQ(allocator_.statistics().device_frees, 1);
}

// 100 on the device. 40 are cached when 70 are asked for: 40 + 70 > 100, so the 40 go back first.
TEST_F(CachingAllocatorTest, WhatIsCachedIsGivenBackBeforeARequestIsRefused) {
  use("", {100_MiB, 0_B});
  allocator_.free(take(40_MiB));
  EXPECT_EQ(reserved(), 40_MiB);
  take(70_MiB);
  EXPECT_EQ(reserved(), 70_MiB);
  EXPECT_EQ(Bytes(all().reserved.bytes.peak), 70_MiB);
  EXPECT_EQ(allocator_.statistics().retries, 1);
  EXPECT_EQ(allocator_.statistics().out_of_memory, 0);
  EXPECT_EQ(allocator_.statistics().device_allocations, 2);
}

// 100 on the device, 10 of them held by others. 5 + 9 of a segment of 20 are used, so nothing goes back: 6 are stuck
// in the segment, 100 - 10 - 20 = 70 are free, and 71 ask for a segment of 72.
TEST_F(CachingAllocatorTest, ARefusalSaysWhatPyTorchSays) {
  use("", {100_MiB, 10_MiB});
  take(5_MiB);
  take(9_MiB);
  const auto refused = allocator_.allocate(71_MiB);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().tried, 72_MiB);
  EXPECT_EQ(refused.error().text(),
            "CUDA out of memory. Tried to allocate 72.00 MiB. GPU 0 has a total capacity of 100.00 "
            "MiB of which 70.00 MiB is free. Of the allocated memory 14.00 MiB is allocated by "
            "PyTorch, and 6.00 MiB is reserved by PyTorch but unallocated.");
  EXPECT_EQ(allocator_.statistics().retries, 1);
  EXPECT_EQ(allocator_.statistics().out_of_memory, 1);
  EXPECT_EQ(reserved(), 20_MiB);
  take(70_MiB);
  EXPECT_EQ(reserved(), 90_MiB);
}

TEST_F(CachingAllocatorTest, NothingAndTooMuch) {
  EXPECT_EQ(take(0_B), kNoBlock);
  allocator_.free(kNoBlock);
  EXPECT_EQ(reserved(), 0_B);
  const auto refused = allocator_.allocate(Bytes(std::int64_t{1} << 60));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().text(), "CUDA out of memory. Tried to allocate more than 1EB memory.");
  const BlockIndex block = take(1_MiB);
  allocator_.free(block);
  EXPECT_THROW(allocator_.free(block), std::logic_error);
}

// 40 of 100 are allowed.
TEST_F(CachingAllocatorTest, TheFractionLimitsWhatIsReserved) {
  use("per_process_memory_fraction:0.4", {100_MiB, 0_B});
  take(30_MiB);
  const auto refused = allocator_.allocate(12_MiB);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().allowed, 40_MiB);
  EXPECT_NE(refused.error().text().find("70.00 MiB is free. 40.00 MiB allowed; Of the"),
            std::string::npos);
  take(10_MiB);
  EXPECT_EQ(reserved(), 40_MiB);
}

// Blocks of 30 or more are lent whole, and only to requests of 30 or more that waste less than 20.
TEST_F(CachingAllocatorTest, MaxSplitSizeKeepsLargeBlocksWhole) {
  use("max_split_size_mb:30", {200_MiB, 0_B});
  allocator_.free(take(60_MiB));
  take(12_MiB);  // not of the 60
  EXPECT_EQ(reserved(), 72_MiB);
  const BlockIndex wasteful = take(41_MiB);  // wastes 19, and takes all 60
  EXPECT_EQ(reserved(), 72_MiB);
  EXPECT_EQ(allocator_.size_of(wasteful), 60_MiB);
  allocator_.free(wasteful);
  const BlockIndex own = take(40_MiB);  // would waste 20
  EXPECT_EQ(reserved(), 112_MiB);
  allocator_.free(own);
  // 112 + 90 > 200: no cached block has 90, so the largest go back until 90 are together: 60 and 40.
  take(90_MiB);
  EXPECT_EQ(reserved(), 102_MiB);
  EXPECT_EQ(allocator_.statistics().retries, 0);
}

// 200 of 400 are allowed, and above 100 old blocks go. 50 were cached one search before 60: when 70 are asked for the
// 50 are 2 searches old, the 60 one, 1.5 on average.
TEST_F(CachingAllocatorTest, GarbageCollectionTakesTheOldest) {
  use("per_process_memory_fraction:0.5,garbage_collection_threshold:0.5", {400_MiB, 0_B});
  allocator_.free(take(50_MiB));
  allocator_.free(take(60_MiB));
  EXPECT_EQ(reserved(), 110_MiB);
  take(70_MiB);
  EXPECT_EQ(reserved(), 130_MiB);
}

TEST_F(CachingAllocatorTest, RoundupByDivisionsOfThePowerOfTwo) {
  use("roundup_power2_divisions:4");
  // 33 lie in [32, 64), in steps of 8: 40. A power of two stays.
  take(33_MiB);
  EXPECT_EQ(allocated(), 40_MiB);
  take(64_MiB);
  EXPECT_EQ(allocated(), 104_MiB);
  const AllocatorSettings settings = settings_of("roundup_power2_divisions:4");
  EXPECT_EQ(rounded_request(1'200, settings), 1'536);  // not above 512 x 4: to 512 as ever
  EXPECT_EQ(rounded_request(2'100, settings), 2'560);  // [2048, 4096) in steps of 512
}

class ExpandableTest : public CachingAllocatorTest {
 protected:
  void SetUp() override { use("expandable_segments:True", {1_GiB, 0_B}); }
};

// 5 map a page of 20 and leave 15; 30 need 15 more: one page, and 5 are left. 1 MiB maps a page of 2 in the other range.
TEST_F(ExpandableTest, PagesAreMappedAsNeeded) {
  const BlockIndex first = take(5_MiB);
  EXPECT_EQ(reserved(), 20_MiB);
  const BlockIndex second = take(30_MiB);
  EXPECT_EQ(reserved(), 40_MiB);
  EXPECT_EQ(address(second), address(first) + (5 << 20));
  take(1_MiB);
  EXPECT_EQ(reserved(), 42_MiB);
  EXPECT_EQ(all().reserved.count.current, 0);
  EXPECT_EQ(inactive_split(), 0_B);
  const std::vector<Segment> segments = allocator_.segments();
  ASSERT_EQ(segments.size(), 2U);
  EXPECT_EQ(segments[0].size, 40_MiB);
  EXPECT_EQ(segments[0].blocks.back().size, 5_MiB);
  EXPECT_EQ(segments[0].page, 20_MiB);
}

TEST_F(ExpandableTest, ARestOf512BytesIsCutOff) {
  take(19_MiB);  // without expandable segments all 20 would be given away
  EXPECT_EQ(allocated(), 19_MiB);
}

// 30 + 30 + 30: pages 0 to 100, of which 90 to 100 are free. The middle one is freed: of [30, 60) only the page
// [40, 60) is whole and goes back; of the tail none. 25 then fit into [30, 40) and the unmapped [40, 60): lowest first.
TEST_F(ExpandableTest, WholePagesGoBackAndAreMappedAgain) {
  const BlockIndex first = take(30_MiB);
  EXPECT_EQ(reserved(), 40_MiB);
  const BlockIndex middle = take(30_MiB);
  EXPECT_EQ(reserved(), 60_MiB);
  const BlockIndex last = take(30_MiB);
  EXPECT_EQ(reserved(), 100_MiB);
  allocator_.free(middle);
  const Fragmentation before = fragmentation_of(allocator_.segments());
  EXPECT_EQ(before.used, 60_MiB);
  EXPECT_EQ(before.returnable, 20_MiB);
  EXPECT_EQ(before.stuck, 20_MiB);
  EXPECT_EQ(before.largest_free, 30_MiB);
  allocator_.empty_cache();
  EXPECT_EQ(reserved(), 80_MiB);
  EXPECT_EQ(allocator_.segments().size(), 2U);
  const BlockIndex again = take(25_MiB);
  EXPECT_EQ(address(again), address(first) + (30 << 20));
  EXPECT_EQ(reserved(), 100_MiB);
  for (BlockIndex block : {first, again, last}) allocator_.free(block);
  allocator_.empty_cache();
  EXPECT_EQ(reserved(), 0_B);
  EXPECT_TRUE(allocator_.segments().empty());
}

// 8 + 8 of 20: the first 8 are freed. 3 would fit best into the 4 at the end, but those can grow: the 8 are taken.
TEST_F(ExpandableTest, TheGrowingEndIsUsedLast) {
  const BlockIndex first = take(8_MiB);
  take(8_MiB);
  const std::int64_t start = address(first);
  allocator_.free(first);
  EXPECT_EQ(address(take(3_MiB)), start);
  EXPECT_EQ(reserved(), 20_MiB);
}

// 100 on the device. Stream 0 has mapped 60 and freed them; stream 1 asks for 50: its 60 (three pages) do not fit, so
// the pages of stream 0 go back. Then 50 of 60 are used, and 41 more would need two pages: 100 - 60 = 40 are free, so
// they are had; 51 would not.
TEST_F(ExpandableTest, PagesMoveBetweenStreams) {
  use("expandable_segments:True", {100_MiB, 0_B});
  allocator_.free(take(55_MiB, 0));
  EXPECT_EQ(reserved(), 60_MiB);
  take(50_MiB, 1);
  EXPECT_EQ(reserved(), 60_MiB);
  EXPECT_EQ(allocator_.statistics().retries, 1);
  const auto refused = allocator_.allocate(51_MiB, 1);  // 10 free + 41 -> three pages
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().tried, 52_MiB);  // as for a segment of its own
  EXPECT_EQ(refused.error().free, 40_MiB);
  take(41_MiB, 1);  // 10 free + 31 -> two pages
  EXPECT_EQ(reserved(), 100_MiB);
}

TEST_F(CachingAllocatorTest, EqualStatesHaveEqualDigests) {
  const StateDigest empty = allocator_.digest();
  const BlockIndex block = take(30_MiB);
  const StateDigest used = allocator_.digest();
  allocator_.free(block);
  const StateDigest cached = allocator_.digest();
  EXPECT_NE(used, cached);
  EXPECT_NE(empty, cached);
  EXPECT_EQ(take(30_MiB), block);
  EXPECT_EQ(allocator_.digest(), used);
}

}  // namespace
}  // namespace steelyard
