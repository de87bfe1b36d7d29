// PyTorch's CUDA caching allocator, simulated: what it would reserve for these requests, to the byte.
//
//   segment, 20 MiB        | 4 MiB used | 6 MiB used |      10 MiB free      |   one cudaMalloc, cut into blocks
//   segment, 84 MiB        |            84 MiB used                          |   a request of 10 MiB or more has its own
//   range (expandable)     | used | free | used |  free  |......not mapped...|   grows by whole pages
//
// A request takes the smallest cached block of its stream and pool that is large enough (of equals the one with the
// lowest address), cuts off what it does not need, or asks the driver for a segment. A freed block joins its free
// neighbours and stays cached. Only when the driver refuses are cached segments given back, and the request is tried
// once more. What the device does not have in the end is an OutOfMemory with the numbers that PyTorch prints.
//
// Two things that the real one gets from outside are rules here: cudaMalloc hands out growing addresses and never one
// that it handed out before, and a stream has caught up when `catch_up` says so. Otherwise equal requests give equal
// answers. The plain form of the same rules, with a std::set, is the judge (allocator/plain_allocator.h).
//
// Source: pytorch c10/cuda/CUDACachingAllocator.cpp, class DeviceCachingAllocator (2.5 to 2.11).
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <unordered_map>
#include <vector>

#include "allocator/free_blocks.h"
#include "allocator/history.h"
#include "allocator/request_sizes.h"
#include "allocator/segments.h"
#include "allocator/statistics.h"
#include "machine/allocator_settings.h"
#include "quantity/quantity.h"

namespace steelyard {

// The device as this process finds it.
struct DeviceMemory {
  Bytes total{std::int64_t{1} << 50};  // by default more than any device has
  Bytes outside{};                     // held by others and by libraries, outside the allocator
};

// A request that could not be met, with what PyTorch's message says. `text` prints it as 2.5 and later do.
struct OutOfMemory {
  Bytes tried{};  // the segment that was asked for, not the request
  Bytes total{}, free{};
  std::optional<Bytes> allowed;  // by the memory fraction
  Bytes allocated{}, reserved{};
  std::string text() const;
};

class CachingAllocator {
 public:
  explicit CachingAllocator(const AllocatorSettings& settings = {},
                            const DeviceMemory& device = {});

  // A request of nothing gives kNoBlock, which may be freed. `stream` may be new.
  tl::expected<BlockIndex, OutOfMemory> allocate(Bytes requested, StreamId stream = kDefaultStream);
  void free(BlockIndex block);
  // The two halves of a free: until it is completed the block stays active.
  void request_free(BlockIndex block);
  void complete_free(BlockIndex block);
  // The block is also used by `stream`: once freed it stays active until that stream has caught up, which the next
  // allocation notices.
  void record_stream(BlockIndex block, StreamId stream);
  // The device has done all that was asked of it on `stream` so far.
  void catch_up(StreamId stream) { catch_up(stream, 0); }
  // The same, but for the last `behind` blocks that were freed while it used them.
  void catch_up(StreamId stream, std::size_t behind);
  void empty_cache();

  const AllocatorStatistics& statistics() const { return statistics_; }
  void reset_peaks();
  const AllocatorSettings& settings() const { return settings_; }
  std::int64_t address_of(BlockIndex block) const { return at(block).address; }
  Bytes size_of(BlockIndex block) const { return Bytes(at(block).size); }

  // From now on every request, every free and every change of segments is written behind `history`; null ends it.
  void record_history(std::vector<HistoryEvent>* history) { history_ = history; }

  // Every segment, and every mapped stretch of a range, by address.
  std::vector<Segment> segments() const;
  // Equal for equal states: the same blocks at the same addresses, used or free.
  StateDigest digest() const;

  // For a recorded history, which knows where cudaMalloc put the next segment (or range) and which cached segment (or
  // stretch of pages) was given back. `release` answers whether there was such a one.
  void place_next_at(std::int64_t address) { next_address_ = address; }
  bool release(std::int64_t address, std::int64_t size);

 private:
  enum class Use : std::uint8_t { kNowhere, kUsed, kAwaited, kFree, kUnmapped };
  struct Block {
    std::int64_t address = 0, size = 0, requested = 0;
    std::int64_t cached_at = 0;  // searches of its pool when it was cached last
    BlockIndex previous = kNoBlock, next = kNoBlock;  // neighbours in the segment
    std::int32_t range = -1;                          // of expandable segments
    std::int32_t pool = 0;                            // 2 * stream, + 1: small
    std::int32_t awaited = 0;                         // streams that have not caught up
    Use use = Use::kNowhere;
    bool recorded = false;  // other streams use it
    bool is_split() const { return previous != kNoBlock || next != kNoBlock; }
  };
  struct Range {
    std::int64_t address = 0, size = 0;
  };
  struct Pool {
    FreeBlocks free;
    std::vector<BlockIndex> unmapped;  // by address
  };
  struct Awaited {
    std::deque<BlockIndex> blocks;
    std::size_t reached = 0;  // so many of them the stream has passed
  };

  Block& at(BlockIndex block) { return blocks_[static_cast<std::size_t>(block)]; }
  const Block& at(BlockIndex block) const { return blocks_[static_cast<std::size_t>(block)]; }
  Pool& pool_at(std::int32_t pool) { return pools_[static_cast<std::size_t>(pool)]; }
  static bool is_small_pool(std::int32_t pool) { return (pool & 1) != 0; }
  PoolStatistics& statistics_of(std::int32_t pool) {
    return is_small_pool(pool) ? statistics_.small : statistics_.large;
  }
  template <class Change>
  void count(std::int32_t pool, Change change) {
    change(statistics_.all);
    change(statistics_of(pool));
  }
  void record(HistoryAction action, std::int64_t address, std::int64_t size, std::int32_t pool) {
    if (history_ != nullptr) history_->push_back({action, address, Bytes(size), pool / 2});
  }
  BlockIndex new_block(std::int64_t address, std::int64_t size, std::int32_t pool,
                       std::int32_t range);
  void delete_block(BlockIndex block);
  void cache(BlockIndex block);
  void uncache(const Block& block);
  std::int64_t searches(std::int32_t pool) const {
    return searches_[static_cast<std::size_t>(pool & 1)];
  }
  void link_behind(BlockIndex block, BlockIndex before);
  // Joins `from`, a neighbour, to `block` if both are cached or both unmapped: the bytes that were joined, else 0.
  std::int64_t join(BlockIndex block, BlockIndex from);
  BlockIndex hand_out(BlockIndex block, std::int64_t size, std::int64_t requested);

  // caching_allocator.cc
  BlockIndex take_cached(std::int32_t pool, std::int64_t size);
  void notice_caught_up();
  std::int64_t take_address(std::int64_t size);
  void return_address(std::int64_t address) { taken_.erase(address); }
  std::int64_t device_free() const;
  bool is_beyond_fraction(std::int64_t size) const;
  void note_reserved(std::int32_t pool, std::int64_t change, std::int64_t segments);

  // new_memory.cc: what happens when nothing cached fits
  BlockIndex new_memory(std::int32_t pool, std::int64_t size);
  BlockIndex new_segment(std::int32_t pool, std::int64_t size);
  void collect_garbage();
  bool release_oversize(std::int32_t pool, std::int64_t size);
  void release_cached();
  void release_segment(BlockIndex block);
  OutOfMemory out_of_memory(std::int64_t size) const;

  // expandable_segments.cc
  std::int64_t page(std::int32_t pool) const;
  BlockIndex grow(std::int32_t pool, std::int64_t size);
  BlockIndex growable(std::int32_t pool, std::int64_t size);
  bool map(BlockIndex block, std::int64_t size);
  void unmap(BlockIndex block, std::int64_t begin, std::int64_t end);
  void unmap_whole_pages(BlockIndex block);
  void insert_unmapped(BlockIndex block);
  void remove_unmapped(BlockIndex block);
  std::int64_t growing_size(const Block& block) const;

  AllocatorSettings settings_;
  DeviceMemory device_;
  std::int64_t max_split_size_;
  std::int64_t allowed_;  // by the memory fraction
  bool collects_garbage_;
  bool rounds_plainly_;
  std::vector<Block> blocks_;
  BlockIndex unused_ = kNoBlock;  // chain of free records, by `next`
  std::vector<Pool> pools_;
  std::vector<Range> ranges_;
  std::array<std::int64_t, 2> searches_{};  // large, small; counted while garbage is collected
  std::vector<Awaited> awaited_;            // by stream
  std::int64_t awaited_count_ = 0;
  std::unordered_map<BlockIndex, std::vector<StreamId>> users_;  // of recorded blocks
  std::int64_t next_address_;
  std::map<std::int64_t, std::int64_t> taken_;  // segments and ranges: address and size
  AllocatorStatistics statistics_;
  std::vector<HistoryEvent>* history_ = nullptr;
};

}  // namespace steelyard
