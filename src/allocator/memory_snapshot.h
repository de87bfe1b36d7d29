// A memory snapshot: what torch.cuda.memory._snapshot() returns, whoever made it.
//
//   devices[0].segments   what is reserved at the end, with the blocks in it
//   devices[0].events     the history up to there, as replay_history plays it
//   devices[0].notes      beside each event: its stack, category and time
//   stacks, frames        each written once; an event names its stack by number
//
// A predicted timeline (predict/timeline.h) has one device; formats/memory_snapshot.h writes and reads the pickles.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "allocator/history.h"
#include "allocator/segments.h"
#include "machine/allocator_settings.h"

namespace steelyard {

struct StackFrame {
  std::string name, filename;
  std::int64_t line = 0;
  friend bool operator==(const StackFrame&, const StackFrame&) = default;
};
using FrameId = std::int32_t;  // index of `frames`
using StackId = std::int32_t;  // index of `stacks`
constexpr StackId kNoStack = 0;

struct SnapshotSegment {
  Segment segment;
  StackId stack = kNoStack;           // who asked for memory when it was made
  std::vector<StackId> block_stacks;  // by block; of what is free: none
  friend bool operator==(const SnapshotSegment&, const SnapshotSegment&) = default;
};

struct EventNote {
  std::int64_t time = 0;  // microseconds, of no clock in particular
  StackId stack = kNoStack;
  std::int32_t category = -1;  // index of `categories`; -1: none
  friend bool operator==(const EventNote&, const EventNote&) = default;
};

struct DeviceSnapshot {
  std::vector<SnapshotSegment> segments;
  std::vector<HistoryEvent> events;
  std::vector<EventNote> notes;  // by event
  friend bool operator==(const DeviceSnapshot&, const DeviceSnapshot&) = default;
};

struct MemorySnapshot {
  std::vector<StackFrame> frames;
  std::vector<std::vector<FrameId>> stacks = {{}};  // innermost frame first; the first is empty
  std::vector<std::string> categories;
  std::vector<DeviceSnapshot> devices;  // by number
  AllocatorSettings settings;
  friend bool operator==(const MemorySnapshot&, const MemorySnapshot&) = default;
};

}  // namespace steelyard
