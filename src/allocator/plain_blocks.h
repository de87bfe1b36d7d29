// What the judge holds: blocks by address, and every number counted from them. For tests.
//
//   blocks   neighbours are entries that touch
//   pages    of a range: the set of those that are mapped
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "allocator/caching_allocator.h"

namespace steelyard {

class PlainBlocks {
 public:
  const AllocatorStatistics& statistics() const { return counted_; }

  std::vector<Segment> segments() const {
    std::vector<Segment> result;
    std::int64_t end = -1;
    for (const auto& [address, block] : blocks_) {
      const Piece& piece = segments_.at(block.segment);
      const bool starts = address == block.segment || (piece.page > 0 && address != end);
      if (starts) {
        Segment segment;
        segment.address = address;
        segment.stream = piece.stream;
        segment.small = piece.small;
        segment.page = Bytes(piece.page);
        result.push_back(segment);
      }
      result.back().size += Bytes(block.size);
      result.back().blocks.push_back(
          {address, Bytes(block.size), Bytes(block.requested), block.use});
      end = address + block.size;
    }
    return result;
  }

 protected:
  struct Block {
    std::int64_t size = 0, requested = 0, segment = 0, cached_at = 0;
    BlockUse use = BlockUse::kFree;
    std::set<StreamId> users;
    std::size_t awaited = 0;
  };
  // One cudaMalloc, or a range of which some pages are mapped.
  struct Piece {
    std::int64_t size = 0;
    StreamId stream = 0;
    bool small = false;
    std::int64_t page = 0;
    std::set<std::int64_t> pages;  // addresses
  };
  // The block that ends here, or the one that begins here, in the same segment.
  std::optional<std::int64_t> before(std::int64_t address, std::int64_t segment) const {
    auto it = blocks_.lower_bound(address);
    if (it == blocks_.begin()) return {};
    --it;
    if (it->second.segment != segment || it->first + it->second.size != address) return {};
    return it->first;
  }
  std::optional<std::int64_t> starting(std::int64_t address, std::int64_t segment) const {
    const auto it = blocks_.find(address);
    if (it == blocks_.end() || it->second.segment != segment) return {};
    return address;
  }
  bool is_free(std::optional<std::int64_t> address) const {
    return address && blocks_.at(*address).use == BlockUse::kFree;
  }
  bool is_split(std::int64_t address) const {
    const Block& block = blocks_.at(address);
    return block.size != segments_.at(block.segment).size;
  }

  std::int64_t reserved() const {
    std::int64_t sum = 0;
    for (const auto& [address, piece] : segments_)
      sum +=
          piece.page > 0 ? piece.page * static_cast<std::int64_t>(piece.pages.size()) : piece.size;
    return sum;
  }

  // Everything from the blocks.
  void count() {
    for (PoolStatistics* to : {&counted_.all, &counted_.large, &counted_.small}) {
      PoolStatistics now;
      const auto add = [](BlockGauge& gauge, std::int64_t bytes) {
        gauge.bytes.current += bytes;
        ++gauge.count.current;
      };
      const auto counts = [&](const Piece& piece) {
        return to == &counted_.all || (to == &counted_.small) == piece.small;
      };
      for (const auto& [address, block] : blocks_) {
        const Piece& piece = segments_.at(block.segment);
        if (!counts(piece)) continue;
        if (block.use == BlockUse::kUsed) add(now.allocated, block.size);
        if (block.use != BlockUse::kFree) {
          add(now.active, block.size);
          now.requested.current += block.requested;
        } else if (piece.page == 0 && is_split(address)) {
          add(now.inactive_split, block.size);
        }
      }
      for (const auto& [address, piece] : segments_) {
        if (!counts(piece)) continue;
        if (piece.page == 0)
          add(now.reserved, piece.size);
        else
          now.reserved.bytes.current += piece.page * static_cast<std::int64_t>(piece.pages.size());
      }
      const auto keep_peak = [](Gauge& kept, const Gauge& fresh) {
        kept.current = fresh.current;
        kept.peak = std::max(kept.peak, fresh.current);
      };
      const auto keep_peaks = [&](BlockGauge& kept, const BlockGauge& fresh) {
        keep_peak(kept.bytes, fresh.bytes);
        keep_peak(kept.count, fresh.count);
      };
      keep_peaks(to->allocated, now.allocated);
      keep_peaks(to->active, now.active);
      keep_peaks(to->inactive_split, now.inactive_split);
      keep_peaks(to->reserved, now.reserved);
      keep_peak(to->requested, now.requested);
    }
  }

  std::map<std::int64_t, Block> blocks_;
  std::map<std::int64_t, Piece> segments_;
  AllocatorStatistics counted_;
};

}  // namespace steelyard
