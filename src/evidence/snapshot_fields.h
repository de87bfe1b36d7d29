// The words of a snapshot's dicts: the keys that are read, what events, blocks and segments say, and one dict by its keys.
//
//   Fields fields(keys_and_values);
//   fields.integer(kKeySize)       4096, or nothing where it has no such whole number
//   fields.text(kKeyAction)        kWordAlloc
//
// For the files that build a history (snapshot_builder.h) alone.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string_view>

#include "evidence/snapshot_builder.h"

namespace steelyard {

// The keys that are read, in the order of their numbers.
enum KnownKey : std::int64_t {
  kKeyAction,
  kKeyAddr,
  kKeySize,
  kKeyStream,
  kKeyTime,
  kKeyFrames,
  kKeyDeviceFree,
  kKeyPoolId,
  kKeyCategory,
  kKeyCompileContext,
  kKeyUserMetadata,
  kKeyName,
  kKeyFilename,
  kKeyLine,
  kKeyState,
  kKeyRequested,
  kKeyAddress,
  kKeyHistory,
  kKeyRealSize,
  kKeyTotalSize,
  kKeyDevice,
  kKeySegmentType,
  kKeySegmentPool,
  kKeyExpandable,
  kKeyBlocks,
  kKeyStage,
  kKnownKeys
};
inline constexpr std::array<std::string_view, kKnownKeys> kKeyNames = {
    "action",      "addr",       "size",     "stream",          "time_us",         "frames",
    "device_free", "pool_id",    "category", "compile_context", "user_metadata",   "name",
    "filename",    "line",       "state",    "requested_size",  "address",         "history",
    "real_size",   "total_size", "device",   "segment_type",    "segment_pool_id", "is_expandable",
    "blocks",      "stage"};

// Words that events, blocks and segments say; their numbers follow those of the keys.
inline constexpr std::array<std::string_view, 15> kSnapshotWords = {"alloc",
                                                                    "free_requested",
                                                                    "free_completed",
                                                                    "segment_alloc",
                                                                    "segment_free",
                                                                    "segment_map",
                                                                    "segment_unmap",
                                                                    "oom",
                                                                    "snapshot",
                                                                    "inactive",
                                                                    "active_allocated",
                                                                    "active_pending_free",
                                                                    "active_awaiting_free",
                                                                    "small",
                                                                    "START"};
enum KnownWord : std::int64_t {
  kWordAlloc = kKnownKeys,
  kWordSnapshot = kKnownKeys + 8,
  kWordInactive,
  kWordAllocated,
  kWordPending,
  kWordAwaiting,
  kWordSmall,
  kWordStart
};

inline std::uint64_t mixed(std::uint64_t hash, std::uint64_t value) {
  hash = (hash ^ value) * 0x9E3779B97F4A7C15U;
  return hash ^ (hash >> 29U);
}

// The fields of one dict by number of their key; a key given twice has its later value.
class SnapshotBuilder::Fields {
 public:
  explicit Fields(std::span<const Value> keys_and_values) {
    for (std::size_t index = 0; index + 1 < keys_and_values.size(); index += 2) {
      const Value& key = keys_and_values[index];
      if (key.kind == Kind::kText && key.payload < kKnownKeys)
        at_[static_cast<std::size_t>(key.payload)] = &keys_and_values[index + 1];
    }
  }
  bool has(KnownKey key) const { return at_[static_cast<std::size_t>(key)] != nullptr; }
  const Value* find(KnownKey key) const { return at_[static_cast<std::size_t>(key)]; }
  std::optional<std::int64_t> integer(KnownKey key) const {
    const Value* value = at_[static_cast<std::size_t>(key)];
    if (value == nullptr || (value->kind != Kind::kInteger && value->kind != Kind::kBool))
      return std::nullopt;
    return value->payload;
  }
  std::int64_t text(KnownKey key) const {  // its number, or -1
    const Value* value = at_[static_cast<std::size_t>(key)];
    return value != nullptr && value->kind == Kind::kText ? value->payload : -1;
  }
  std::int64_t pool(KnownKey key) const {
    const Value* value = at_[static_cast<std::size_t>(key)];
    return value != nullptr && value->kind == Kind::kPair ? value->payload : 0;
  }

 private:
  std::array<const Value*, kKnownKeys> at_{};
};

}  // namespace steelyard
