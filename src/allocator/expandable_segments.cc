// expandable_segments:True. Each stream and pool has a range of addresses, larger than the device; pages of 2 MiB (small
// pool) or 20 MiB (large) are mapped into it where a request needs them, and unmapped when memory is given back.
//
//   | used | free, 12 MiB | not mapped ...        a request of 30 MiB maps one page: 12 + 20 >= 30
//   | used | used, 30 MiB |2| not mapped ...      and 2 MiB of it stay free
//
// Source: pytorch c10/cuda/CUDACachingAllocator.cpp, ExpandableSegment, try_allocate_expandable_block, map_block,
// unmap_block.
#include <algorithm>

#include "allocator/caching_allocator.h"

namespace steelyard {

std::int64_t CachingAllocator::page(std::int32_t pool) const {
  return is_small_pool(pool) ? kSmallSegment : settings_.large_segment.value().value();
}

std::int64_t CachingAllocator::growing_size(const Block& block) const {
  if (block.next == kNoBlock || at(block.next).use != Use::kUnmapped) return block.size;
  return block.size + at(block.next).size;
}

BlockIndex CachingAllocator::grow(std::int32_t pool, std::int64_t size) {
  BlockIndex block = growable(pool, size);
  if (at(block).use == Use::kUnmapped && !map(block, std::min(at(block).size, size)))
    return kNoBlock;
  while (at(block).size < size) {
    // Behind the free block stands an unmapped one, which joins it when it is mapped.
    const BlockIndex behind = at(block).next;
    if (!map(behind, std::min(size - at(block).size, at(behind).size))) return kNoBlock;
    block = behind;
  }
  uncache(at(block));
  return block;
}

// The lowest stretch of free and unmapped addresses that is long enough, or a new range.
BlockIndex CachingAllocator::growable(std::int32_t pool, std::int64_t size) {
  const auto is_open = [&](BlockIndex block) {
    return block != kNoBlock && (at(block).use == Use::kFree || at(block).use == Use::kUnmapped);
  };
  for (BlockIndex unmapped : pool_at(pool).unmapped) {
    const BlockIndex previous = at(unmapped).previous;
    const BlockIndex first = is_open(previous) ? previous : unmapped;
    std::int64_t open = 0;
    for (BlockIndex block = first; open < size && is_open(block); block = at(block).next)
      open += at(block).size;
    if (open >= size) return first;
  }
  // An eighth more than the device, so that pages unmapped in front can be mapped again behind.
  const Checked total = device_.total.value();
  const std::int64_t length = round_up(total + total / 8, page(pool)).value();
  const std::int64_t address = take_address(length);
  const auto range = static_cast<std::int32_t>(ranges_.size());
  ranges_.push_back({address, length});
  const BlockIndex block = new_block(address, length, pool, range);
  at(block).use = Use::kUnmapped;
  insert_unmapped(block);
  return block;
}

// Maps whole pages from the start of `block` on, at least `size`; all of them or none.
bool CachingAllocator::map(BlockIndex block, std::int64_t size) {
  const std::int32_t pool = at(block).pool;
  const std::int64_t mapped = round_up(Checked(size), page(pool)).value();
  if (mapped > device_free()) return false;
  record(HistoryAction::kSegmentMap, at(block).address, mapped, pool);
  remove_unmapped(block);
  at(block).use = Use::kFree;
  if (mapped < at(block).size) {
    const BlockIndex rest =
        new_block(at(block).address + mapped, at(block).size - mapped, pool, at(block).range);
    at(rest).use = Use::kUnmapped;
    link_behind(rest, block);
    insert_unmapped(rest);
    at(block).size = mapped;
  }
  join(block, at(block).previous);
  join(block, at(block).next);
  cache(block);
  note_reserved(pool, mapped, 0);
  return true;
}

void CachingAllocator::unmap_whole_pages(BlockIndex block) {
  const Block& cached = at(block);
  const std::int64_t base = ranges_[static_cast<std::size_t>(cached.range)].address;
  const std::int64_t size = page(cached.pool);
  const std::int64_t begin = round_up(Checked(cached.address - base), size).value();
  const std::int64_t end = (cached.address + cached.size - base) / size * size;
  if (begin < end) unmap(block, base + begin, base + end);
}

// Takes [begin, end) out of a cached block; what stands before and after it in its pages stays cached.
void CachingAllocator::unmap(BlockIndex block, std::int64_t begin, std::int64_t end) {
  uncache(at(block));
  const Block whole = at(block);
  if (begin > whole.address) {
    const BlockIndex before =
        new_block(whole.address, begin - whole.address, whole.pool, whole.range);
    at(before).previous = whole.previous;
    at(before).next = block;
    if (whole.previous != kNoBlock) at(whole.previous).next = before;
    at(block).previous = before;
    cache(before);
  }
  if (end < whole.address + whole.size) {
    const BlockIndex after =
        new_block(end, whole.address + whole.size - end, whole.pool, whole.range);
    link_behind(after, block);
    cache(after);
  }
  at(block).address = begin;
  at(block).size = end - begin;
  at(block).use = Use::kUnmapped;
  join(block, at(block).previous);
  join(block, at(block).next);
  note_reserved(whole.pool, begin - end, 0);
  record(HistoryAction::kSegmentUnmap, begin, end - begin, whole.pool);
  if (at(block).is_split()) return insert_unmapped(block);
  return_address(at(block).address);  // nothing of the range is mapped any more
  delete_block(block);
}

void CachingAllocator::insert_unmapped(BlockIndex block) {
  std::vector<BlockIndex>& list = pool_at(at(block).pool).unmapped;
  list.insert(
      std::upper_bound(list.begin(), list.end(), block,
                       [&](BlockIndex a, BlockIndex b) { return at(a).address < at(b).address; }),
      block);
}

void CachingAllocator::remove_unmapped(BlockIndex block) {
  std::vector<BlockIndex>& list = pool_at(at(block).pool).unmapped;
  list.erase(std::find(list.begin(), list.end(), block));
}

}  // namespace steelyard
