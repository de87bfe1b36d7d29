// What an allocator did, in order, as torch.cuda.memory._record_memory_history() writes it down.
//
//   segment_alloc  @ A       20 MiB   cudaMalloc gave a segment
//   alloc          @ A        4 MiB   the program has a block; the size is as asked for, not rounded
//   free_requested @ A        4 MiB   the program lets go
//   free_completed @ A        4 MiB   the block is cached; later where a stream still uses it
//   segment_free   @ A       20 MiB   cudaFree
//
// The simulated allocator writes such a history (CachingAllocator::record_history), a snapshot holds one
// (allocator/memory_snapshot.h), and replay_history plays one again.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "quantity/quantity.h"

namespace steelyard {

// 0 is the default stream; the others are numbered as the caller likes, from 1 on without gaps.
using StreamId = std::int32_t;
constexpr StreamId kDefaultStream = 0;

enum class HistoryAction : std::uint8_t {
  kAlloc,
  kFreeRequested,
  kFreeCompleted,
  kSegmentAlloc,
  kSegmentFree,
  kSegmentMap,
  kSegmentUnmap,
  kOther,  // oom, snapshot, annotations: nothing changes
};
// Nothing for a word that is none of PyTorch's.
std::optional<HistoryAction> history_action_named(std::string_view word);
// PyTorch's word; "snapshot" for what changes nothing.
std::string_view name_of(HistoryAction action);

struct HistoryEvent {
  HistoryAction action = HistoryAction::kOther;
  std::int64_t address = 0;
  Bytes size{};  // as recorded: of alloc the request, not rounded
  // Streams numbered from 0. A private pool (CUDA graphs) has numbers of its own, since it shares blocks with no other.
  StreamId stream = 0;
  friend bool operator==(const HistoryEvent&, const HistoryEvent&) = default;
};

}  // namespace steelyard
