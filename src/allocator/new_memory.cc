// What happens when nothing cached fits: garbage is collected, the driver is asked, oversize blocks are given back and
// the driver asked again, all that is cached is given back and the driver asked once more.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "allocator/caching_allocator.h"

namespace steelyard {

BlockIndex CachingAllocator::new_memory(std::int32_t pool, std::int64_t size) {
  if (collects_garbage_) collect_garbage();
  BlockIndex block = new_segment(pool, size);
  if (block == kNoBlock && release_oversize(pool, size)) block = new_segment(pool, size);
  if (block == kNoBlock) {
    release_cached();
    ++statistics_.retries;
    block = new_segment(pool, size);
  }
  return block;
}

// alloc_block. The limit of the memory fraction is held against the segment even where only pages are mapped.
BlockIndex CachingAllocator::new_segment(std::int32_t pool, std::int64_t size) {
  const std::int64_t segment = segment_for(size, settings_);
  if (is_beyond_fraction(segment)) return kNoBlock;
  if (settings_.expandable_segments) return grow(pool, size);
  if (segment > device_free()) return kNoBlock;
  const BlockIndex block = new_block(take_address(segment), segment, pool, -1);
  note_reserved(pool, segment, 1);
  record(HistoryAction::kSegmentAlloc, at(block).address, segment, pool);
  return block;
}

std::int64_t CachingAllocator::take_address(std::int64_t size) {
  std::int64_t address = next_address_;
  const bool beyond_all =
      taken_.empty() || taken_.rbegin()->first + taken_.rbegin()->second <= address;
  if (beyond_all) {
    next_address_ = (Checked(address) + Checked(size)).value();
    taken_.emplace_hint(taken_.end(), address, size);
    return address;
  }
  // A record may contradict itself: what is held already is not given out again.
  const auto after = taken_.lower_bound(address);
  const bool meets_next =
      after != taken_.end() && (Checked(address) + Checked(size)).value() > after->first;
  const bool meets_previous =
      after != taken_.begin() && std::prev(after)->first + std::prev(after)->second > address;
  if (meets_next || meets_previous) address = taken_.rbegin()->first + taken_.rbegin()->second;
  next_address_ = (Checked(address) + Checked(size)).value();
  taken_.emplace(address, size);
  return address;
}

std::int64_t CachingAllocator::device_free() const {
  const std::int64_t free =
      (device_.total - device_.outside).value().value() - statistics_.all.reserved.bytes.current;
  return std::max<std::int64_t>(0, free);
}

bool CachingAllocator::is_beyond_fraction(std::int64_t size) const {
  return settings_.memory_fraction && statistics_.all.reserved.bytes.current + size > allowed_;
}

void CachingAllocator::note_reserved(std::int32_t pool, std::int64_t change,
                                     std::int64_t segments) {
  count(pool, [&](PoolStatistics& s) {
    s.reserved.bytes.rise(change);
    s.reserved.count.rise(segments);
  });
  ++(change > 0 ? statistics_.device_allocations : statistics_.device_frees);
}

// Of the cached segments of the large pools those go first that no search has taken for longest: all that are at least
// as old as the average, again and again, until the target is met or nothing goes.
void CachingAllocator::collect_garbage() {
  const auto threshold = static_cast<std::int64_t>(settings_.garbage_collection_threshold *
                                                   static_cast<double>(allowed_));
  const std::int64_t target = statistics_.all.reserved.bytes.current - threshold;
  if (target <= 0) return;
  std::vector<BlockIndex> whole;
  std::int64_t total_age = 0;
  for (std::size_t pool = 0; pool < pools_.size(); pool += 2) {
    const FreeBlocks& free = pools_[pool].free;
    for (auto cursor = free.begin(); !free.is_end(cursor); cursor = free.next(cursor)) {
      const BlockIndex block = free.at(cursor).block;
      if (at(block).is_split()) continue;
      whole.push_back(block);
      total_age += searches_[0] - at(block).cached_at;
    }
  }
  std::int64_t given_back = 0;
  bool any = true;
  while (given_back < target && any && !whole.empty()) {
    const double average = static_cast<double>(total_age) / static_cast<double>(whole.size());
    any = false;
    std::vector<BlockIndex> younger;
    for (BlockIndex block : whole) {
      const std::int64_t age = searches_[0] - at(block).cached_at;
      if (at(block).range >= 0 || static_cast<double>(age) < average) {
        younger.push_back(block);
        continue;
      }
      any = true;
      given_back += at(block).size;
      total_age -= age;
      release_segment(block);
    }
    whole = std::move(younger);
  }
}

// release_available_cached_blocks: with max_split_size, whole oversize blocks of this stream: the smallest that is large
// enough alone, or else from the largest downwards until they are enough together.
bool CachingAllocator::release_oversize(std::int32_t pool, std::int64_t size) {
  if (!settings_.max_split_size || settings_.expandable_segments) return false;
  const FreeBlocks& free = pool_at(pool).free;
  const std::int64_t enough = std::max(size, max_split_size_);
  std::vector<BlockIndex> oversize;
  for (auto cursor = free.best_fit(max_split_size_); !free.is_end(cursor);
       cursor = free.next(cursor)) {
    const BlockIndex block = free.at(cursor).block;
    // Only a large_segment_size_mb above max_split_size_mb leaves such parts; cudaFree would refuse them.
    if (at(block).is_split()) continue;
    if (at(block).size >= enough) {
      release_segment(block);
      return true;
    }
    oversize.push_back(block);
  }
  std::int64_t released = 0;
  while (released < enough && !oversize.empty()) {
    released += at(oversize.back()).size;
    release_segment(oversize.back());
    oversize.pop_back();
  }
  return released >= enough;
}

// release_cached_blocks, for empty_cache() and before the last try: waits for all streams, then gives back every segment
// that holds nothing, and every whole page, of all streams.
void CachingAllocator::release_cached() {
  for (Awaited& awaited : awaited_) awaited.reached = awaited.blocks.size();
  notice_caught_up();
  std::vector<BlockIndex> cached;
  for (const Pool& pool : pools_)
    for (auto cursor = pool.free.begin(); !pool.free.is_end(cursor);
         cursor = pool.free.next(cursor))
      cached.push_back(pool.free.at(cursor).block);
  for (BlockIndex block : cached) {
    if (at(block).range >= 0)
      unmap_whole_pages(block);
    else if (!at(block).is_split())
      release_segment(block);
  }
}

void CachingAllocator::release_segment(BlockIndex block) {
  note_reserved(at(block).pool, -at(block).size, -1);
  record(HistoryAction::kSegmentFree, at(block).address, at(block).size, at(block).pool);
  uncache(at(block));
  return_address(at(block).address);
  delete_block(block);
}

OutOfMemory CachingAllocator::out_of_memory(std::int64_t size) const {
  OutOfMemory problem;
  problem.tried = Bytes(size);
  problem.total = device_.total;
  problem.free = Bytes(device_free());
  if (settings_.memory_fraction) problem.allowed = Bytes(allowed_);
  problem.allocated = Bytes(statistics_.all.allocated.bytes.current);
  problem.reserved = Bytes(statistics_.all.reserved.bytes.current);
  return problem;
}

namespace {

// format_size of PyTorch: two decimals, and a whole unit stays in the smaller one (1 MiB is 1024.00 KiB).
std::string size_text(Bytes bytes) {
  const std::int64_t size = bytes.value().value();
  const auto real = static_cast<double>(size);
  if (size <= 1024) return fmt::format("{} bytes", size);
  if (size <= (1 << 20)) return fmt::format("{:.2f} KiB", real / (1 << 10));
  if (size <= (1 << 30)) return fmt::format("{:.2f} MiB", real / (1 << 20));
  return fmt::format("{:.2f} GiB", real / (1 << 30));
}

}  // namespace

std::string OutOfMemory::text() const {
  if (tried.value().value() >= kRefusedRequest)
    return "CUDA out of memory. Tried to allocate more than 1EB memory.";
  return fmt::format(
      "CUDA out of memory. Tried to allocate {}. GPU 0 has a total capacity of {} of which {} is "
      "free. {}Of the allocated memory {} is allocated by PyTorch, and {} is reserved by PyTorch "
      "but unallocated.",
      size_text(tried), size_text(total), size_text(free),
      allowed ? size_text(*allowed) + " allowed; " : "", size_text(allocated),
      size_text(reserved - allocated));
}

}  // namespace steelyard
