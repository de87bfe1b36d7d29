#include "allocator/caching_allocator.h"

#include <algorithm>
#include <limits>
#include <stdexcept>

namespace steelyard {
namespace {

constexpr std::int64_t kUnlimited = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kFirstAddress = std::int64_t{1} << 40;

}  // namespace

CachingAllocator::CachingAllocator(const AllocatorSettings& settings, const DeviceMemory& device)
    : settings_(settings), device_(device), next_address_(kFirstAddress) {
  max_split_size_ = settings.max_split_size ? settings.max_split_size->value().value() : kUnlimited;
  allowed_ = kUnlimited;
  if (settings.memory_fraction)
    allowed_ = static_cast<std::int64_t>(*settings.memory_fraction *
                                         static_cast<double>(device.total.value().value()));
  collects_garbage_ = settings.memory_fraction && settings.garbage_collection_threshold > 0;
  rounds_plainly_ =
      std::all_of(settings.roundup_divisions.begin(), settings.roundup_divisions.end(),
                  [](std::int64_t divisions) { return divisions <= 1; });
  pools_.resize(2);
  blocks_.reserve(1024);
}

tl::expected<BlockIndex, OutOfMemory> CachingAllocator::allocate(Bytes requested, StreamId stream) {
  const std::int64_t wanted = requested.value().value();
  if (wanted <= 0) return kNoBlock;
  if (wanted >= kRefusedRequest) return tl::unexpected(out_of_memory(wanted));
  if (awaited_count_ > 0) notice_caught_up();
  const std::int64_t size =
      rounds_plainly_ ? rounded_up(wanted, kSmallestBlock) : rounded_request(wanted, settings_);
  const std::int32_t pool = 2 * stream + (is_small(size) ? 1 : 0);
  if (static_cast<std::size_t>(pool) >= pools_.size())
    pools_.resize(2 * (static_cast<std::size_t>(stream) + 1));
  BlockIndex block = take_cached(pool, size);
  if (block == kNoBlock) {
    block = new_memory(pool, size);
    if (block == kNoBlock) {
      ++statistics_.out_of_memory;
      return tl::unexpected(out_of_memory(segment_for(size, settings_)));
    }
  }
  return hand_out(block, size, wanted);
}

// get_free_block: only the first that fits is looked at, save that a growing end is used last.
BlockIndex CachingAllocator::take_cached(std::int32_t pool, std::int64_t size) {
  if (collects_garbage_) ++searches_[static_cast<std::size_t>(pool & 1)];
  FreeBlocks& free = pool_at(pool).free;
  FreeBlocks::Cursor found = free.best_fit(size);
  if (free.is_end(found)) return kNoBlock;
  if (settings_.expandable_segments) {
    // A block at the growing end counts with all that it can grow to.
    std::int64_t grown = growing_size(at(free.at(found).block));
    for (auto next = free.next(found); !free.is_end(next); next = free.next(next)) {
      const std::int64_t other = growing_size(at(free.at(next).block));
      if (other >= grown) break;
      found = next;
      grown = other;
    }
  }
  const FreeBlocks::Entry entry = free.at(found);
  if (size < max_split_size_ && entry.size >= max_split_size_) return kNoBlock;
  if (size >= max_split_size_ &&
      entry.size >= size + settings_.max_non_split_rounding.value().value())
    return kNoBlock;
  free.remove(found);
  return entry.block;
}

// alloc_found_block: `block` is out of the cache; its front is handed out, what is left is cached.
BlockIndex CachingAllocator::hand_out(BlockIndex block, std::int64_t size, std::int64_t requested) {
  const std::int32_t pool = at(block).pool;
  const std::int64_t left = at(block).size - size;
  const bool was_split = at(block).is_split();
  const bool counts_split = at(block).range < 0;
  const bool splits = is_small_pool(pool) || settings_.expandable_segments
                          ? left >= kSmallestBlock
                          : size < max_split_size_ && left > kLargestSmall;
  if (splits) {
    const BlockIndex rest = new_block(at(block).address + size, left, pool, at(block).range);
    at(block).size = size;
    link_behind(rest, block);
    cache(rest);
    if (counts_split && was_split)
      count(pool, [&](PoolStatistics& s) { s.inactive_split.bytes.fall(size); });
    else if (counts_split)
      count(pool, [&](PoolStatistics& s) { s.inactive_split.rise(left); });
  } else if (counts_split && was_split) {
    count(pool, [&](PoolStatistics& s) { s.inactive_split.fall(at(block).size); });
  }
  Block& used = at(block);
  used.use = Use::kUsed;
  used.requested = requested;
  count(pool, [&](PoolStatistics& s) {
    s.allocated.rise(used.size);
    s.active.rise(used.size);
    s.requested.rise(requested);
  });
  record(HistoryAction::kAlloc, used.address, requested, pool);
  return block;
}

void CachingAllocator::free(BlockIndex block) {
  if (block == kNoBlock) return;
  request_free(block);
  if (!at(block).recorded) return complete_free(block);
  Block& freed = at(block);
  freed.recorded = false;
  const auto users = users_.extract(block);
  for (StreamId stream : users.mapped()) {
    if (static_cast<std::size_t>(stream) >= awaited_.size())
      awaited_.resize(static_cast<std::size_t>(stream) + 1);
    awaited_[static_cast<std::size_t>(stream)].blocks.push_back(block);
    ++freed.awaited;
    ++awaited_count_;
  }
}

void CachingAllocator::request_free(BlockIndex block) {
  if (block == kNoBlock) return;
  Block& freed = at(block);
  if (freed.use != Use::kUsed) throw std::logic_error("a block is freed that is not in use");
  freed.use = Use::kAwaited;
  count(freed.pool, [&](PoolStatistics& s) { s.allocated.fall(freed.size); });
  record(HistoryAction::kFreeRequested, freed.address, freed.requested, freed.pool);
}

void CachingAllocator::complete_free(BlockIndex block) {
  if (block == kNoBlock) return;
  Block& freed = at(block);
  if (freed.use != Use::kAwaited) throw std::logic_error("a block is returned that was not freed");
  const std::int64_t size = freed.size;
  const std::int64_t requested = freed.requested;
  record(HistoryAction::kFreeCompleted, freed.address, requested, freed.pool);
  freed.use = Use::kFree;
  freed.requested = 0;
  std::int64_t split_blocks = 0;
  std::int64_t split_bytes = 0;
  for (const BlockIndex neighbour : {freed.previous, freed.next}) {
    const std::int64_t joined = join(block, neighbour);
    if (joined == 0) continue;
    --split_blocks;
    split_bytes -= joined;
  }
  cache(block);
  if (freed.is_split()) {
    ++split_blocks;
    split_bytes += freed.size;
  }
  const bool counts_split = freed.range < 0;
  count(freed.pool, [&](PoolStatistics& s) {
    if (counts_split) {
      s.inactive_split.count.rise(split_blocks);
      s.inactive_split.bytes.rise(split_bytes);
    }
    s.active.fall(size);
    s.requested.fall(requested);
  });
}

void CachingAllocator::record_stream(BlockIndex block, StreamId stream) {
  if (block == kNoBlock || at(block).pool / 2 == stream) return;
  std::vector<StreamId>& users = users_[block];
  if (std::find(users.begin(), users.end(), stream) == users.end()) users.push_back(stream);
  at(block).recorded = true;
}

void CachingAllocator::catch_up(StreamId stream, std::size_t behind) {
  if (static_cast<std::size_t>(stream) >= awaited_.size()) return;
  Awaited& awaited = awaited_[static_cast<std::size_t>(stream)];
  awaited.reached = awaited.blocks.size() - std::min(behind, awaited.blocks.size());
}

void CachingAllocator::notice_caught_up() {
  for (Awaited& awaited : awaited_)
    for (; awaited.reached > 0; --awaited.reached) {
      const BlockIndex block = awaited.blocks.front();
      awaited.blocks.pop_front();
      --awaited_count_;
      if (--at(block).awaited == 0) complete_free(block);
    }
}

void CachingAllocator::empty_cache() { release_cached(); }

void CachingAllocator::reset_peaks() {
  for (PoolStatistics* s : {&statistics_.all, &statistics_.large, &statistics_.small})
    for (Gauge* gauge : {&s->allocated.bytes, &s->allocated.count, &s->active.bytes,
                         &s->active.count, &s->inactive_split.bytes, &s->inactive_split.count,
                         &s->reserved.bytes, &s->reserved.count, &s->requested})
      gauge->peak = gauge->current;
}

BlockIndex CachingAllocator::new_block(std::int64_t address, std::int64_t size, std::int32_t pool,
                                       std::int32_t range) {
  BlockIndex block = unused_;
  if (block == kNoBlock) {
    block = static_cast<BlockIndex>(blocks_.size());
    blocks_.emplace_back();
  } else {
    unused_ = at(block).next;
  }
  Block& made = at(block);
  made = Block{};
  made.address = address;
  made.size = size;
  made.pool = pool;
  made.range = range;
  made.use = Use::kFree;
  return block;
}

void CachingAllocator::delete_block(BlockIndex block) {
  at(block).use = Use::kNowhere;
  at(block).next = unused_;
  unused_ = block;
}

void CachingAllocator::cache(BlockIndex block) {
  Block& cached = at(block);
  cached.cached_at = searches(cached.pool);
  pool_at(cached.pool).free.insert({cached.size, cached.address, block});
}

void CachingAllocator::uncache(const Block& block) {
  pool_at(block.pool).free.remove(block.size, block.address);
}

void CachingAllocator::link_behind(BlockIndex block, BlockIndex before) {
  const BlockIndex after = at(before).next;
  at(block).previous = before;
  at(block).next = after;
  at(before).next = block;
  if (after != kNoBlock) at(after).previous = block;
}

std::int64_t CachingAllocator::join(BlockIndex block, BlockIndex from) {
  if (from == kNoBlock) return 0;
  Block& kept = at(block);
  const Block& gone = at(from);
  if (gone.use != kept.use) return 0;
  if (gone.use == Use::kFree)
    uncache(gone);
  else
    remove_unmapped(from);
  if (kept.previous == from) {
    kept.address = gone.address;
    kept.previous = gone.previous;
    if (kept.previous != kNoBlock) at(kept.previous).next = block;
  } else {
    kept.next = gone.next;
    if (kept.next != kNoBlock) at(kept.next).previous = block;
  }
  kept.size += gone.size;
  const std::int64_t joined = gone.size;
  delete_block(from);
  return joined;
}

}  // namespace steelyard
