// The judge of the caching allocator: the same rules, plainly. For tests.
//
//   free     one ordered set of (stream, size, address) for each of the two pools, as PyTorch has it
//   blocks   in one map by address, with the numbers counted anew after every change (allocator/plain_blocks.h)
//
// Slow and simple on purpose. It shares sizes (request_sizes.h) and records of numbers with CachingAllocator, and none
// of its structures or sums.
#pragma once

#include <algorithm>
#include <deque>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <vector>

#include "allocator/plain_blocks.h"

namespace steelyard {

class PlainAllocator : public PlainBlocks {
 public:
  PlainAllocator(const AllocatorSettings& settings, const DeviceMemory& device)
      : settings_(settings),
        total_(device.total.value().value()),
        usable_(total_ - device.outside.value().value()) {
    if (settings.memory_fraction)
      allowed_ = static_cast<std::int64_t>(*settings.memory_fraction * static_cast<double>(total_));
    if (settings.max_split_size) max_split_ = settings.max_split_size->value().value();
  }

  // The address; nothing when the device is full.
  std::optional<std::int64_t> allocate(std::int64_t requested, StreamId stream) {
    notice();
    const std::int64_t size = rounded_request(requested, settings_);
    const bool small = is_small(size);
    std::optional<std::int64_t> found = cached(size, small, stream);
    if (!found) {
      if (collects()) collect();
      found = ask(size, small, stream);
    }
    if (!found && release_oversize(size, stream, small)) found = ask(size, small, stream);
    if (!found) {
      release_all();
      ++counted_.retries;
      found = ask(size, small, stream);
    }
    if (!found) {
      ++counted_.out_of_memory;
      return {};
    }
    hand_out(*found, size, requested);
    count();
    return found;
  }

  void free(std::int64_t address) {
    Block& block = blocks_.at(address);
    block.use = BlockUse::kAwaited;
    count();
    for (StreamId user : block.users) queues_[user].waiting.push_back(address);
    block.awaited = block.users.size();
    block.users.clear();
    if (block.awaited == 0) give(address);
  }
  void record_stream(std::int64_t address, StreamId stream) {
    Block& block = blocks_.at(address);
    if (segments_.at(block.segment).stream != stream) block.users.insert(stream);
  }
  void catch_up(StreamId stream, std::size_t behind) {
    Queue& queue = queues_[stream];
    queue.reached = queue.waiting.size() - std::min(behind, queue.waiting.size());
  }
  void empty_cache() { release_all(); }

 private:
  struct Queue {
    std::deque<std::int64_t> waiting;
    std::size_t reached = 0;
  };
  using Key = std::tuple<StreamId, std::int64_t, std::int64_t>;

  bool collects() const {
    return settings_.memory_fraction && settings_.garbage_collection_threshold > 0;
  }
  Piece& piece_of(std::int64_t address) { return segments_.at(blocks_.at(address).segment); }
  std::set<Key>& free_of(const Piece& piece) { return free_[piece.small ? 1 : 0]; }
  Key key_of(std::int64_t address) {
    return {piece_of(address).stream, blocks_.at(address).size, address};
  }
  void cache(std::int64_t address) {
    blocks_.at(address).cached_at = searches_[piece_of(address).small ? 1 : 0];
    free_of(piece_of(address)).insert(key_of(address));
  }
  void uncache(std::int64_t address) { free_of(piece_of(address)).erase(key_of(address)); }

  // Joins an uncached free block with its free neighbours and caches it: its address.
  std::int64_t settle(std::int64_t address) {
    const std::int64_t segment = blocks_.at(address).segment;
    if (const auto front = before(address, segment); is_free(front)) {
      uncache(*front);
      blocks_.at(*front).size += blocks_.at(address).size;
      blocks_.erase(address);
      address = *front;
    }
    if (const auto back = starting(address + blocks_.at(address).size, segment); is_free(back)) {
      uncache(*back);
      blocks_.at(address).size += blocks_.at(*back).size;
      blocks_.erase(*back);
    }
    cache(address);
    return address;
  }
  void give(std::int64_t address) {
    Block& block = blocks_.at(address);
    block.use = BlockUse::kFree;
    block.requested = 0;
    settle(address);
    count();
  }
  void notice() {
    for (auto& [stream, queue] : queues_)
      for (; queue.reached > 0; --queue.reached) {
        const std::int64_t address = queue.waiting.front();
        queue.waiting.pop_front();
        if (--blocks_.at(address).awaited == 0) give(address);
      }
  }

  // Bytes from `address` on that are not mapped: no block stands there.
  std::int64_t unmapped_from(std::int64_t address, std::int64_t segment) const {
    const Piece& range = segments_.at(segment);
    const auto next = range.pages.lower_bound(address);
    if (next != range.pages.end() && *next == address) return 0;
    return (next == range.pages.end() ? segment + range.size : *next) - address;
  }
  std::int64_t can_grow_to(const Key& key) {
    const Block& block = blocks_.at(std::get<2>(key));
    const std::int64_t end = std::get<2>(key) + block.size;
    if (end == block.segment + segments_.at(block.segment).size) return block.size;
    if (starting(end, block.segment)) return block.size;
    return block.size + unmapped_from(end, block.segment);
  }
  std::optional<std::int64_t> cached(std::int64_t size, bool small, StreamId stream) {
    if (collects()) ++searches_[small ? 1 : 0];
    std::set<Key>& free = free_[small ? 1 : 0];
    auto it = free.lower_bound({stream, size, 0});
    if (it == free.end() || std::get<0>(*it) != stream) return {};
    if (settings_.expandable_segments)
      for (auto next = std::next(it); next != free.end() && std::get<0>(*next) == stream &&
                                      can_grow_to(*next) < can_grow_to(*it);
           ++next)
        it = next;
    const std::int64_t has = std::get<1>(*it);
    if (size < max_split_ && has >= max_split_) return {};
    if (size >= max_split_ && has >= size + settings_.max_non_split_rounding.value().value())
      return {};
    const std::int64_t address = std::get<2>(*it);
    free.erase(it);
    return address;
  }
  void hand_out(std::int64_t address, std::int64_t size, std::int64_t requested) {
    Block& block = blocks_.at(address);
    const std::int64_t left = block.size - size;
    const bool splits = segments_.at(block.segment).small || settings_.expandable_segments
                            ? left >= 512
                            : size < max_split_ && left > (1 << 20);
    if (splits) {
      block.size = size;
      Block rest;
      rest.size = left;
      rest.segment = block.segment;
      blocks_[address + size] = rest;
      cache(address + size);
    }
    block.use = BlockUse::kUsed;
    block.requested = requested;
  }

  std::int64_t take_address(std::int64_t size) {
    const std::int64_t address = next_;
    next_ += size;
    return address;
  }
  std::optional<std::int64_t> ask(std::int64_t size, bool small, StreamId stream) {
    const std::int64_t segment = segment_for(size, settings_);
    if (settings_.memory_fraction && reserved() + segment > allowed_) return {};
    if (settings_.expandable_segments) return grow(size, small, stream);
    if (reserved() + segment > usable_) return {};
    const std::int64_t address = take_address(segment);
    segments_[address] = {segment, stream, small, 0, {}};
    Block block;
    block.size = segment;
    block.segment = address;
    blocks_[address] = block;
    ++counted_.device_allocations;
    return address;
  }

  std::optional<std::int64_t> grow(std::int64_t size, bool small, StreamId stream) {
    const std::int64_t start = place_to_grow(size, small, stream);
    const auto range = std::prev(segments_.upper_bound(start));
    std::int64_t address = start;
    std::int64_t has = blocks_.count(start) != 0 ? blocks_.at(start).size : 0;
    while (has < size) {
      const std::int64_t end = start + has;
      const std::int64_t open = unmapped_from(end, range->first);
      if (!map(end, std::min(open, size - has), range->first)) return {};
      address = std::prev(blocks_.upper_bound(start))->first;
      has = blocks_.at(address).size;
    }
    uncache(address);
    return address;
  }
  std::int64_t place_to_grow(std::int64_t size, bool small, StreamId stream) {
    for (const auto& [base, range] : segments_) {
      if (range.stream != stream || range.small != small || range.page == 0) continue;
      for (std::int64_t at = base; at < base + range.size;) {
        const std::int64_t open = unmapped_from(at, base);
        if (open == 0) {
          at += range.page;
          continue;
        }
        const auto front = before(at, base);
        const std::int64_t start = is_free(front) ? *front : at;
        std::int64_t end = start;
        while (end - start < size && end < base + range.size) {
          const auto block = starting(end, base);
          if (block && !is_free(block)) break;
          end += block ? blocks_.at(*block).size : unmapped_from(end, base);
        }
        if (end - start >= size) return start;
        at += open;
      }
    }
    const std::int64_t page = small ? kSmallSegment : settings_.large_segment.value().value();
    const std::int64_t length = (total_ + total_ / 8 + page - 1) / page * page;
    const std::int64_t base = take_address(length);
    segments_[base] = {length, stream, small, page, {}};
    return base;
  }
  bool map(std::int64_t address, std::int64_t size, std::int64_t base) {
    Piece& range = segments_.at(base);
    const std::int64_t mapped = (size + range.page - 1) / range.page * range.page;
    if (reserved() + mapped > usable_) return false;
    for (std::int64_t at = address; at < address + mapped; at += range.page) range.pages.insert(at);
    Block block;
    block.size = mapped;
    block.segment = base;
    blocks_[address] = block;
    settle(address);
    ++counted_.device_allocations;
    count();
    return true;
  }

  void release(std::int64_t address) {
    uncache(address);
    segments_.erase(address);
    blocks_.erase(address);
    ++counted_.device_frees;
    count();
  }
  void unmap_pages(std::int64_t address) {
    const Block block = blocks_.at(address);
    Piece& range = segments_.at(block.segment);
    std::vector<std::int64_t> inside;
    for (std::int64_t page : range.pages)
      if (page >= address && page + range.page <= address + block.size) inside.push_back(page);
    if (inside.empty()) return;
    uncache(address);
    blocks_.erase(address);
    const auto keep = [&](std::int64_t from, std::int64_t to) {
      if (from == to) return;
      Block part;
      part.size = to - from;
      part.segment = block.segment;
      blocks_[from] = part;
      cache(from);
    };
    keep(address, inside.front());
    keep(inside.back() + range.page, address + block.size);
    for (std::int64_t page : inside) range.pages.erase(page);
    if (range.pages.empty()) segments_.erase(block.segment);
    ++counted_.device_frees;
    count();
  }
  void release_all() {
    for (auto& [stream, queue] : queues_) queue.reached = queue.waiting.size();
    notice();
    for (std::set<Key>& free : free_)
      for (const Key& key : std::set<Key>(free)) {
        const std::int64_t address = std::get<2>(key);
        if (piece_of(address).page > 0)
          unmap_pages(address);
        else if (!is_split(address))
          release(address);
      }
  }
  bool release_oversize(std::int64_t size, StreamId stream, bool small) {
    if (!settings_.max_split_size || settings_.expandable_segments) return false;
    const std::int64_t enough = std::max(size, max_split_);
    std::vector<std::int64_t> oversize;
    for (const auto& [owner, has, address] : free_[small ? 1 : 0])
      if (owner == stream && has >= max_split_ && !is_split(address)) oversize.push_back(address);
    for (std::int64_t address : oversize)
      if (blocks_.at(address).size >= enough) {
        release(address);
        return true;
      }
    std::int64_t released = 0;
    for (auto it = oversize.rbegin(); it != oversize.rend() && released < enough; ++it) {
      released += blocks_.at(*it).size;
      release(*it);
    }
    return released >= enough;
  }
  void collect() {
    const auto threshold = static_cast<std::int64_t>(settings_.garbage_collection_threshold *
                                                     static_cast<double>(allowed_));
    const std::int64_t target = reserved() - threshold;
    if (target <= 0) return;
    std::int64_t given = 0;
    while (given < target) {
      std::map<std::int64_t, std::int64_t> ages;
      std::int64_t total = 0;
      for (const auto& [stream, size, address] : free_[0])
        if (!is_split(address))
          total += ages[address] = searches_[0] - blocks_.at(address).cached_at;
      if (ages.empty()) return;
      const double average = static_cast<double>(total) / static_cast<double>(ages.size());
      bool any = false;
      for (const auto& [address, age] : ages)
        if (piece_of(address).page == 0 && static_cast<double>(age) >= average) {
          given += blocks_.at(address).size;
          release(address);
          any = true;
        }
      if (!any) return;
    }
  }

  AllocatorSettings settings_;
  std::int64_t total_, usable_, allowed_ = 0;
  std::int64_t max_split_ = std::numeric_limits<std::int64_t>::max();
  std::array<std::set<Key>, 2> free_;
  std::array<std::int64_t, 2> searches_{};
  std::map<StreamId, Queue> queues_;
  std::int64_t next_ = std::int64_t{1} << 40;
};

}  // namespace steelyard
