#include "evidence/replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

namespace steelyard {
namespace {

constexpr std::int64_t kGranularity = 512;  // the allocator's smallest block

std::int64_t rounded(std::int64_t size) {
  return std::max<std::int64_t>(size + kGranularity - 1, kGranularity) / kGranularity *
         kGranularity;
}

bool is_live(const RecordedBlock& block) { return block.state != RecordedBlock::State::kInactive; }

// Addresses to births, with open addressing: six million events pass through it.
class Births {
 public:
  Births() : slots_(1024) {}
  std::int64_t* find(std::int64_t address) {
    for (std::size_t at = start(address);; at = (at + 1) & (slots_.size() - 1)) {
      if (!slots_[at].used) return nullptr;
      if (slots_[at].address == address) return slots_[at].alive ? &slots_[at].event : nullptr;
    }
  }
  void put(std::int64_t address, std::int64_t event) {
    if (2 * (taken_ + 1) > slots_.size()) grow();
    Slot& slot = place(slots_, address);
    if (!slot.used) ++taken_;
    slot = {address, event, true, true};
  }
  void take(std::int64_t address) { place(slots_, address).alive = false; }
  template <class Each>
  void each(Each each) const {
    for (const Slot& slot : slots_)
      if (slot.alive) each(slot.address, slot.event);
  }

 private:
  struct Slot {
    std::int64_t address = 0, event = 0;
    bool used = false, alive = false;
  };
  std::size_t start(std::int64_t address) const {
    return (static_cast<std::uint64_t>(address) * 0x9E3779B97F4A7C15U >> 20U) & (slots_.size() - 1);
  }
  Slot& place(std::vector<Slot>& slots, std::int64_t address) {
    std::size_t at =
        (static_cast<std::uint64_t>(address) * 0x9E3779B97F4A7C15U >> 20U) & (slots.size() - 1);
    while (slots[at].used && slots[at].address != address) at = (at + 1) & (slots.size() - 1);
    return slots[at];
  }
  void grow() {
    std::size_t alive = 0;
    for (const Slot& slot : slots_) alive += slot.alive ? 1 : 0;
    std::size_t size = 1024;
    while (size < 4 * (alive + 1)) size *= 2;
    std::vector<Slot> fresh(size);
    taken_ = 0;
    for (const Slot& slot : slots_)
      if (slot.alive) {
        place(fresh, slot.address) = slot;
        ++taken_;
      }
    slots_ = std::move(fresh);
  }
  std::vector<Slot> slots_;
  std::size_t taken_ = 0;
};

class DeviceReplay {
 public:
  DeviceReplay(const MemoryHistory& history, std::size_t number)
      : history_(history), device_(history.devices[number]) {
    moment_.device = static_cast<std::int64_t>(number);
    for (const RecordedSegment& segment : device_.segments) {
      moment_.final_reserved += segment.size;
      for (const RecordedBlock& block : segment.blocks)
        if (is_live(block)) moment_.final_live += block.requested;
    }
    moment_.failures = static_cast<std::int64_t>(device_.failures.size());
  }

  DeviceMoment run() {
    const bool has_history = changes_anything();
    if (has_history) {
      sum_up();
      choose_moment();
    } else {
      moment_.kind = DeviceMoment::Kind::kState;
      moment_.live = moment_.peak = moment_.base = moment_.final_live;
      moment_.reserved = moment_.peak_reserved = moment_.final_reserved;
    }
    moment_.blocks =
        has_history ? blocks_at(static_cast<std::int64_t>(moment_.event), true) : state_blocks();
    if (has_history) moment_.live = live_at(moment_.event);
    check();
    find_gaps();
    return std::move(moment_);
  }

  // Blocks that are live just before `event` (`before`), or just after it.
  std::vector<LiveBlock> blocks_at(std::int64_t event, bool before);
  std::vector<LiveBlock> state_blocks() const;

 private:
  bool changes_anything() const {
    return std::any_of(device_.events.begin(), device_.events.end(),
                       [](const RecordedEvent& event) {
                         return event.action != RecordedAction::kSnapshot &&
                                event.action != RecordedAction::kOther;
                       }) &&
           !(device_.events.size() == 1 &&
             device_.events[0].action == RecordedAction::kFreeCompleted);
  }

  void sum_up() {
    std::int64_t sum = 0;
    std::int64_t reserved = 0;
    bool was_flush = false;
    for (const RecordedEvent& event : device_.events) {
      const bool frees_segment = event.action == RecordedAction::kSegmentFree ||
                                 event.action == RecordedAction::kSegmentUnmap;
      if (frees_segment && !was_flush) ++moment_.cache_flushes;
      was_flush = frees_segment;
      switch (event.action) {
        case RecordedAction::kAlloc:
          sum += event.size;
          break;
        case RecordedAction::kFreeCompleted:
          sum -= event.size;
          break;
        case RecordedAction::kSegmentAlloc:
        case RecordedAction::kSegmentMap:
          reserved += event.size;
          break;
        case RecordedAction::kSegmentFree:
        case RecordedAction::kSegmentUnmap:
          reserved -= event.size;
          break;
        default:
          break;
      }
    }
    moment_.base = moment_.final_live - sum;
    reserved_base_ = moment_.final_reserved - reserved;
    std::int64_t live = moment_.base;
    std::int64_t held = reserved_base_;
    moment_.peak = live;
    moment_.peak_reserved = held;
    for (std::size_t index = 0; index < device_.events.size(); ++index) {
      const RecordedEvent& event = device_.events[index];
      if (event.action == RecordedAction::kAlloc) {
        live += event.size;
        if (live > moment_.peak) {
          moment_.peak = live;
          moment_.peak_event = index;
        }
      } else if (event.action == RecordedAction::kFreeCompleted) {
        live -= event.size;
      } else if (event.action == RecordedAction::kSegmentAlloc ||
                 event.action == RecordedAction::kSegmentMap) {
        held += event.size;
        moment_.peak_reserved = std::max(moment_.peak_reserved, held);
      } else if (event.action == RecordedAction::kSegmentFree ||
                 event.action == RecordedAction::kSegmentUnmap) {
        held -= event.size;
      }
      least_live_ = std::min(least_live_, live);
      least_reserved_ = std::min(least_reserved_, held);
    }
  }

  void choose_moment() {
    moment_.kind = DeviceMoment::Kind::kPeak;
    moment_.event = std::min(moment_.peak_event + 1, device_.events.size());
    if (!device_.failures.empty()) {
      const RecordedFailure& failure = device_.failures.back();
      moment_.kind = DeviceMoment::Kind::kFailure;
      moment_.event = failure.event;
      moment_.tried = device_.events[failure.event].size;
      moment_.device_free = failure.device_free;
      moment_.time = device_.events[failure.event].time;
    } else if (moment_.peak_event < device_.events.size()) {
      moment_.time = device_.events[moment_.peak_event].time;
    }
    std::int64_t reserved = reserved_base_;
    for (std::size_t index = 0; index < moment_.event; ++index) {
      const RecordedEvent& event = device_.events[index];
      if (event.action == RecordedAction::kSegmentAlloc ||
          event.action == RecordedAction::kSegmentMap)
        reserved += event.size;
      else if (event.action == RecordedAction::kSegmentFree ||
               event.action == RecordedAction::kSegmentUnmap)
        reserved -= event.size;
    }
    moment_.reserved = reserved;
  }

  std::int64_t live_at(std::size_t event) const {
    std::int64_t live = moment_.base;
    for (std::size_t index = 0; index < event; ++index) {
      if (device_.events[index].action == RecordedAction::kAlloc)
        live += device_.events[index].size;
      if (device_.events[index].action == RecordedAction::kFreeCompleted)
        live -= device_.events[index].size;
    }
    return live;
  }

  void check();
  void find_gaps();

  const MemoryHistory& history_;
  const RecordedDevice& device_;
  DeviceMoment moment_;
  std::int64_t reserved_base_ = 0, least_live_ = 0, least_reserved_ = 0;
};

std::vector<LiveBlock> DeviceReplay::state_blocks() const {
  std::vector<LiveBlock> blocks;
  for (const RecordedSegment& segment : device_.segments)
    for (const RecordedBlock& block : segment.blocks) {
      if (!is_live(block)) continue;
      LiveBlock live;
      live.address = block.address;
      live.size = block.requested;
      live.stack = block.stack;
      live.stream = segment.stream;
      live.private_pool = segment.private_pool;
      blocks.push_back(live);
    }
  return blocks;
}

std::vector<LiveBlock> DeviceReplay::blocks_at(std::int64_t moment, bool counts) {
  // Born in the history and live at the moment; of what is freed without a birth, a block of before.
  Births births;
  std::vector<LiveBlock> blocks;
  std::unordered_map<std::int64_t, std::size_t>
      waiting;  // address to `blocks`, of what is live at the moment
  const auto last = static_cast<std::int64_t>(device_.events.size());
  const auto collect = [&] {
    births.each([&](std::int64_t address, std::int64_t born) {
      const RecordedEvent& event = device_.events[static_cast<std::size_t>(born)];
      LiveBlock block;
      block.address = address;
      block.size = event.size;
      block.born = born;
      block.stack = event.stack;
      block.stream = event.stream;
      block.category = event.category;
      waiting.emplace(address, blocks.size());
      blocks.push_back(block);
    });
  };
  std::unordered_map<std::int64_t, std::int64_t> released;
  for (std::int64_t index = 0; index < last; ++index) {
    if (index == moment) collect();
    const RecordedEvent& event = device_.events[static_cast<std::size_t>(index)];
    if (event.action == RecordedAction::kAlloc) {
      births.put(event.address, index);
    } else if (event.action == RecordedAction::kFreeRequested && index < moment) {
      released[event.address] = index;
    } else if (event.action == RecordedAction::kFreeCompleted) {
      if (index < moment) released.erase(event.address);
      if (births.find(event.address) != nullptr) {
        births.take(event.address);
      } else if (index < moment) {
        if (counts) {
          ++moment_.lost_births;
          moment_.lost_bytes += event.size;
        }
      } else if (waiting.find(event.address) == waiting.end()) {
        // Live at the moment, born before the history, and freed since.
        LiveBlock block;
        block.address = event.address;
        block.size = event.size;
        block.stream = event.stream;
        block.dies = index;
        waiting.emplace(event.address, blocks.size());
        blocks.push_back(block);
        if (counts) {
          ++moment_.lost_births;
          moment_.lost_bytes += event.size;
        }
        continue;
      }
      if (index >= moment) {
        const auto at = waiting.find(event.address);
        if (at != waiting.end() && blocks[at->second].dies == kNeverSeen &&
            blocks[at->second].size == event.size)
          blocks[at->second].dies = index;
      }
    }
  }
  if (moment >= last) collect();
  for (const auto& [address, index] : released)
    if (const auto at = waiting.find(address);
        at != waiting.end() && index >= blocks[at->second].born)
      blocks[at->second].released = index;
  // What is there in the end and was never born has been there all along.
  for (const RecordedSegment& segment : device_.segments)
    for (const RecordedBlock& block : segment.blocks) {
      if (!is_live(block)) continue;
      if (births.find(block.address) != nullptr) {
        if (const auto at = waiting.find(block.address); at != waiting.end())
          blocks[at->second].private_pool = segment.private_pool;
        continue;
      }
      LiveBlock live;
      live.address = block.address;
      live.size = block.requested;
      live.stack = block.stack;
      live.stream = segment.stream;
      live.private_pool = segment.private_pool;
      blocks.push_back(live);
    }
  return blocks;
}

void DeviceReplay::check() {
  std::int64_t together = 0;
  for (const LiveBlock& block : moment_.blocks) together += block.size;
  for (const LiveBlock& block : moment_.blocks)
    moment_.rounding += rounded(block.size) - block.size;
  const std::int64_t leeway = std::max<std::int64_t>(moment_.live / 100, std::int64_t{1} << 20);
  const auto fault = [&](std::string why) {
    if (!moment_.consistent) return;
    moment_.consistent = false;
    moment_.why = std::move(why);
  };
  if (history_.sums_disagree) fault("the blocks of a segment do not sum to its size");
  if (least_live_ < -leeway) fault("more is freed than was ever live: the history has lost events");
  if (moment_.live > moment_.reserved + leeway || least_reserved_ < -leeway)
    fault(fmt::format("{} bytes live in {} reserved", moment_.live, moment_.reserved));
  if (std::abs(together - moment_.live) > leeway)
    fault(fmt::format("blocks of {} bytes where the sums say {}", together, moment_.live));
  moment_.live = together;  // piles sum to what is listed
}

// The largest stretch of reserved memory without a live block: what a request of the large pool could have had.
void DeviceReplay::find_gaps() {
  struct Range {
    std::int64_t begin, end;
  };
  std::vector<Range> segments;
  for (const RecordedSegment& segment : device_.segments)
    segments.push_back({segment.address, segment.address + segment.size});
  // Undone from the last event back to the moment.
  if (moment_.kind != DeviceMoment::Kind::kState) {
    for (std::size_t index = device_.events.size(); index-- > moment_.event;) {
      const RecordedEvent& event = device_.events[index];
      const std::int64_t begin = event.address;
      const std::int64_t end = event.address + event.size;
      if (event.action == RecordedAction::kSegmentFree ||
          event.action == RecordedAction::kSegmentUnmap) {
        segments.push_back({begin, end});
      } else if (event.action == RecordedAction::kSegmentAlloc ||
                 event.action == RecordedAction::kSegmentMap) {
        std::vector<Range> cut;
        for (const Range& range : segments) {
          if (range.end <= begin || range.begin >= end) {
            cut.push_back(range);
            continue;
          }
          if (range.begin < begin) cut.push_back({range.begin, begin});
          if (range.end > end) cut.push_back({end, range.end});
        }
        segments = std::move(cut);
      }
    }
  }
  std::sort(segments.begin(), segments.end(),
            [](const Range& a, const Range& b) { return a.begin < b.begin; });
  std::vector<Range> live;
  live.reserve(moment_.blocks.size());
  for (const LiveBlock& block : moment_.blocks)
    live.push_back({block.address, block.address + rounded(block.size)});
  std::sort(live.begin(), live.end(),
            [](const Range& a, const Range& b) { return a.begin < b.begin; });
  constexpr std::int64_t kSmallSegmentBytes = std::int64_t{2} << 20;
  std::size_t next = 0;
  for (const Range& segment : segments) {
    std::int64_t at = segment.begin;
    while (next < live.size() && live[next].end <= segment.begin) ++next;
    std::int64_t largest = 0;
    for (std::size_t index = next; index < live.size() && live[index].begin < segment.end;
         ++index) {
      largest = std::max(largest, live[index].begin - at);
      at = std::max(at, live[index].end);
    }
    largest = std::max(largest, segment.end - at);
    if (segment.end - segment.begin > kSmallSegmentBytes)
      moment_.largest_gap = std::max(moment_.largest_gap, largest);
  }
}

}  // namespace

std::vector<DeviceMoment> replay_to_moment(const MemoryHistory& history) {
  std::vector<DeviceMoment> moments;
  for (std::size_t number = 0; number < history.devices.size(); ++number) {
    const RecordedDevice& device = history.devices[number];
    if (device.segments.empty() && device.events.empty()) continue;
    DeviceMoment moment = DeviceReplay(history, number).run();
    if (moment.reserved == 0 && moment.peak == 0 && moment.failures == 0 && device.segments.empty())
      continue;
    moments.push_back(std::move(moment));
  }
  std::stable_sort(moments.begin(), moments.end(),
                   [](const DeviceMoment& a, const DeviceMoment& b) {
                     const bool failed = a.kind == DeviceMoment::Kind::kFailure;
                     if (failed != (b.kind == DeviceMoment::Kind::kFailure)) return failed;
                     if (failed && a.time != b.time) return a.time > b.time;
                     return a.live > b.live;
                   });
  return moments;
}

std::vector<LiveBlock> live_blocks_after(const MemoryHistory& history, std::size_t device,
                                         std::int64_t event) {
  return DeviceReplay(history, device).blocks_at(event + 1, false);
}

}  // namespace steelyard
