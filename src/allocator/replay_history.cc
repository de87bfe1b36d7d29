#include "allocator/replay_history.h"

#include <fmt/format.h>

#include <optional>
#include <unordered_map>

namespace steelyard {
namespace {

// What the record decides is not decided again.
AllocatorSettings followed(AllocatorSettings settings) {
  settings.memory_fraction = std::nullopt;
  settings.garbage_collection_threshold = 0;
  return settings;
}

class Historian {
 public:
  Historian(const AllocatorSettings& settings, const DeviceMemory& device)
      : allocator_(followed(settings), {device.total, Bytes{}}) {}

  void play(std::size_t index, const HistoryEvent& event) {
    index_ = index;
    switch (event.action) {
      case HistoryAction::kAlloc:
        return allocate(event);
      case HistoryAction::kFreeRequested:
        if (const auto block = find(event)) allocator_.request_free(*block);
        return;
      case HistoryAction::kFreeCompleted:
        if (const auto block = find(event)) {
          allocator_.complete_free(*block);
          live_.erase(event.address);
        }
        return;
      case HistoryAction::kSegmentAlloc:
      case HistoryAction::kSegmentMap:
        result_.recorded_reserved.rise(event.size.value().value());
        allocator_.place_next_at(event.address);
        return;
      case HistoryAction::kSegmentFree:
      case HistoryAction::kSegmentUnmap:
        result_.recorded_reserved.fall(event.size.value().value());
        if (!allocator_.release(event.address, event.size.value().value()))
          differs(fmt::format("{:#x} went back and is not cached", event.address));
        return;
      case HistoryAction::kOther:
        return;
    }
  }

  HistoryReplay result() && {
    result_.statistics = allocator_.statistics();
    return std::move(result_);
  }

 private:
  struct Live {
    BlockIndex block = kNoBlock;
    bool freed = false;
  };

  void allocate(const HistoryEvent& event) {
    ++result_.requests;
    const auto block = allocator_.allocate(event.size, event.stream);
    if (!block) return differs("a request was refused: " + block.error().text());
    const std::int64_t address = *block == kNoBlock ? event.address : allocator_.address_of(*block);
    if (address != event.address)
      differs(fmt::format("alloc at {:#x} was played at {:#x}", event.address, address));
    const std::int64_t reserved = allocator_.statistics().all.reserved.bytes.current;
    if (reserved != result_.recorded_reserved.current)
      differs(
          fmt::format("{} B are reserved, {} B were", reserved, result_.recorded_reserved.current));
    // What the record uses twice was freed in a part of it that is missing.
    const auto [known, is_new] = live_.try_emplace(event.address);
    if (!is_new && known->second.block != kNoBlock) {
      if (!known->second.freed) allocator_.request_free(known->second.block);
      allocator_.complete_free(known->second.block);
    }
    known->second = {*block, false};
  }

  // The block that a free is about; nothing if the history does not know it, or not in this state.
  std::optional<BlockIndex> find(const HistoryEvent& event) {
    const auto known = live_.find(event.address);
    const bool completes = event.action == HistoryAction::kFreeCompleted;
    if (known == live_.end() || known->second.freed != completes) {
      ++result_.unknown;
      return std::nullopt;
    }
    known->second.freed = true;
    return known->second.block;
  }

  void differs(const std::string& what) {
    ++result_.differences;
    if (result_.first_difference.empty())
      result_.first_difference = fmt::format("event {}: {}", index_, what);
  }

  CachingAllocator allocator_;
  HistoryReplay result_;
  std::unordered_map<std::int64_t, Live> live_;
  std::size_t index_ = 0;
};

}  // namespace

HistoryReplay replay_history(std::span<const HistoryEvent> events,
                             const AllocatorSettings& settings, const DeviceMemory& device) {
  Historian historian(settings, device);
  for (std::size_t index = 0; index < events.size(); ++index) historian.play(index, events[index]);
  return std::move(historian).result();
}

}  // namespace steelyard
