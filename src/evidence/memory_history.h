// What a memory snapshot of a process recorded: its segments at the time of the dump, and the events before it.
//
//   devices[0].segments   reserved memory with its blocks, as it was when the file was written: after the failure
//   devices[0].events     alloc, free_requested, free_completed, segment_alloc, ..., oom, in order
//   stacks, frames        each written once; an event names its stack by number
//   annotations           START and END of Optimizer.step and the like
//
// Sources: PyTorch torch/csrc/cuda/Module.cpp, torch/csrc/cuda/memory_snapshot.cpp, torch/cuda/memory.py (1.12 to 2.11).
// A history that began after the process knows nothing of earlier blocks: evidence/replay.h finds them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "machine/allocator_settings.h"
#include "quantity/quantity.h"

namespace steelyard {

enum class RecordedAction : std::uint8_t {
  kAlloc,
  kFreeRequested,
  kFreeCompleted,
  kSegmentAlloc,
  kSegmentFree,
  kSegmentMap,
  kSegmentUnmap,
  kOom,
  kSnapshot,
  kOther  // annotate, user_defined, and words of versions to come: no effect on memory
};

// 32 bytes: a history of a gigabyte has six million of them.
struct RecordedEvent {
  std::int64_t address = 0;
  std::int64_t size = 0;   // of alloc the request, not rounded; of oom the rounded request
  std::int64_t time = 0;   // microseconds; 0: not recorded
  std::int32_t stack = 0;  // index of `stacks`; 0: none
  std::int16_t stream = 0;
  RecordedAction action = RecordedAction::kOther;
  std::uint8_t category = 0;  // index of `categories`; 0: none
};

struct RecordedBlock {
  enum class State : std::uint8_t { kInactive, kPendingFree, kAllocated };
  std::int64_t address = 0, size = 0;
  std::int64_t requested = 0;  // equal to `size` where the version does not record it
  std::int32_t stack = 0;
  State state = State::kInactive;
};

struct RecordedSegment {
  std::int64_t device = 0, address = 0, size = 0;
  std::int16_t stream = 0;
  bool small = false, expandable = false, private_pool = false;
  std::vector<RecordedBlock> blocks;
};

struct RecordedFailure {
  std::size_t event = 0;
  std::int64_t device_free = 0;
};

struct RecordedAnnotation {
  std::string name;  // "Optimizer.step#AdamW.step"
  bool starts = false;
  std::int64_t device = 0, time = 0;
};

struct RecordedFrame {
  std::string name, file;
  std::int64_t line = 0;
};

struct RecordedDevice {
  std::vector<RecordedSegment> segments;
  std::vector<RecordedEvent> events;
  std::vector<RecordedFailure> failures;  // of `events`, those that are oom
};

struct MemoryHistory {
  std::vector<RecordedFrame> frames;
  std::vector<std::int32_t> stack_frames;  // of all stacks, innermost first
  std::vector<std::size_t> stack_begins = {0,
                                           0};  // stack i is from [i] to [i + 1]; stack 0 is empty
  std::vector<std::string> categories = {""};
  std::vector<RecordedDevice> devices;
  std::vector<RecordedAnnotation> annotations;
  AllocatorSettings settings;
  std::string era;             // PyTorch versions that write this form
  bool has_traces = false;     // false: a state only, by its form
  bool sums_disagree = false;  // the blocks of a segment do not sum to it

  std::span<const std::int32_t> stack(std::int32_t id) const {
    const auto index = static_cast<std::size_t>(id);
    if (index + 1 >= stack_begins.size()) return {};
    return std::span<const std::int32_t>(stack_frames)
        .subspan(stack_begins[index], stack_begins[index + 1] - stack_begins[index]);
  }
  std::size_t stacks() const { return stack_begins.size() - 1; }
};

}  // namespace steelyard
