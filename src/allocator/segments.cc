#include "allocator/segments.h"

#include <algorithm>

#include "allocator/caching_allocator.h"

namespace steelyard {
Fragmentation fragmentation_of(const std::vector<Segment>& segments) {
  Fragmentation result;
  for (const Segment& segment : segments)
    for (const SegmentBlock& block : segment.blocks) {
      if (block.use != BlockUse::kFree) {
        result.used += block.size;
        continue;
      }
      Bytes returnable = segment.blocks.size() == 1 ? block.size : Bytes{};
      if (segment.page > Bytes{}) {  // a mapped stretch begins with a page
        const Checked page = segment.page.value();
        const Checked begin = round_up(block.address - segment.address, page);
        const Checked end =
            (Checked(block.address - segment.address) + block.size.value()) / page * page;
        returnable = Bytes(std::max(Checked(0), end - begin));
      }
      result.returnable += returnable;
      result.stuck += block.size - returnable;
      result.largest_free = std::max(result.largest_free, block.size);
    }
  return result;
}

std::vector<Segment> CachingAllocator::segments() const {
  const auto is_mapped = [&](BlockIndex block) {
    return block != kNoBlock && at(block).use != Use::kUnmapped;
  };
  std::vector<Segment> result;
  for (const Block& head : blocks_) {
    if (head.use == Use::kNowhere || head.use == Use::kUnmapped || is_mapped(head.previous))
      continue;
    Segment segment;
    segment.address = head.address;
    segment.stream = head.pool / 2;
    segment.small = is_small_pool(head.pool);
    if (head.range >= 0) segment.page = Bytes(page(head.pool));
    auto block = static_cast<BlockIndex>(&head - blocks_.data());
    for (; is_mapped(block); block = at(block).next) {
      const Block& part = at(block);
      const BlockUse use = part.use == Use::kUsed      ? BlockUse::kUsed
                           : part.use == Use::kAwaited ? BlockUse::kAwaited
                                                       : BlockUse::kFree;
      segment.size += Bytes(part.size);
      segment.blocks.push_back({part.address, Bytes(part.size), Bytes(part.requested), use});
    }
    result.push_back(std::move(segment));
  }
  std::sort(result.begin(), result.end(),
            [](const Segment& a, const Segment& b) { return a.address < b.address; });
  return result;
}

StateDigest CachingAllocator::digest() const {
  StateDigest digest;
  for (const Block& block : blocks_) {
    if (block.use == Use::kNowhere || block.use == Use::kUnmapped) continue;
    const std::uint64_t kind = (static_cast<std::uint64_t>(block.pool) << 8U) ^
                               static_cast<std::uint64_t>(block.use) ^
                               (block.recorded ? 0x80U : 0U);
    const std::uint64_t value = StateDigest::joined(
        {static_cast<std::uint64_t>(block.address), static_cast<std::uint64_t>(block.size), kind});
    digest.add(value);
  }
  return digest;
}

bool CachingAllocator::release(std::int64_t address, std::int64_t size) {
  for (std::size_t index = 0; index < blocks_.size(); ++index) {
    const Block& block = blocks_[index];
    if (block.use != Use::kFree || address < block.address ||
        address + size > block.address + block.size)
      continue;
    const auto found = static_cast<BlockIndex>(index);
    if (block.range >= 0) {
      unmap(found, address, address + size);
      return true;
    }
    if (block.is_split() || block.address != address || block.size != size) return false;
    release_segment(found);
    return true;
  }
  return false;
}

}  // namespace steelyard
