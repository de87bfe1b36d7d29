// Builds a MemoryHistory while a snapshot is read, without keeping its dicts: each is turned into a row at once.
//
//   {"action": "alloc", "addr": 32, ...}      an event, by its key "action"
//   {"filename": ..., "line": 17, ...}        a frame
//   [frame, frame]                            a stack
//   {"total_size": ..., "blocks": [...]}      a segment
//
// The two readers (snapshot_pickle.cc, snapshot_json.cc) call it as values end. What a dict is follows from its keys alone,
// since inner values end before outer ones. Memory is a small multiple of the file: what would be more is a fault.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "evidence/memory_history.h"

namespace steelyard {

class SnapshotBuilder {
 public:
  enum class Kind : std::uint8_t {
    kNothing,
    kBool,
    kInteger,  // of 64 bits; beyond, the lowest 64
    kNumber,
    kText,       // payload: number of the text
    kPair,       // of two small integers: a pool
    kEmptyList,  // and the containers that may grow
    kEmptyDict,
    kStack,
    kRows,   // a list of rows of one kind: payload is an index of `rows_`
    kList,   // any other: an index of `lists_`
    kEvent,  // rows: payload is their index
    kFrame,
    kBlock,
    kSegment,
    kAnnotation,
    kPast,      // an entry of a block's `history` (PyTorch 2.0)
    kDict,      // any other
    kUnwritten  // the reader's own: a place of the memo without a value
  };
  struct Value {
    std::int64_t payload = 0;
    std::uint32_t slot = 0;  // the reader's own: the place of the memo that holds a container
    Kind kind = Kind::kNothing;
  };

  explicit SnapshotBuilder(std::size_t bytes) : most_values_(bytes + (1U << 20U)) {
    // An event takes more than a hundred bytes: growing by doubling would hold it twice. What is not used is never touched.
    if (bytes > (std::size_t{64} << 20)) events_.reserve(bytes / 72);
  }

  // What is larger is damage.
  static constexpr std::int64_t kMostDevices = 1024, kLargestSize = std::int64_t{1} << 50;

  static Value integer(std::int64_t number) { return {number, 0, Kind::kInteger}; }
  static Value truth(bool yes) { return {yes ? 1 : 0, 0, Kind::kBool}; }
  static Value number(double number);
  Value text(std::string_view text);
  // The value of a dict or list that has ended, or of one that has grown by these.
  Value dict(const Value& before, std::span<const Value> keys_and_values);
  Value list(const Value& before, std::span<const Value> items);
  Value tuple(std::span<const Value> items);

  // Whether so many more values may stand in lists and dicts; else a fault.
  bool room_for(std::size_t values);

  // Of a text: itself; of anything else "?".
  std::string shown(const Value& value) const;

  const std::string& fault() const { return fault_; }
  // The history that `root` is; a fault where it is none.
  MemoryHistory finish(const Value& root);

 private:
  struct Rows {
    Kind kind = Kind::kNothing;
    std::vector<std::pair<std::int64_t, std::int64_t>> ranges;  // [begin, end)
  };
  struct Past {
    std::int64_t size = -1;
    std::int32_t stack = 0;
  };
  struct Dict {
    std::vector<std::pair<std::int64_t, Value>> members;  // by number of the key
  };
  class Fields;

  Value event(const Fields& fields);
  Value frame(const Fields& fields);
  Value block(const Fields& fields);
  Value segment(const Fields& fields);
  Value annotation(const Fields& fields);
  Value rows_of(const Value& before, std::span<const Value> items);
  Value stack_of(const Value& before, std::span<const Value> items);
  std::int32_t stack_in(const Value& value) const;
  std::int16_t stream_of(std::int64_t stream, std::int64_t pool);
  template <class Take>
  void each_row(const Value& list, Kind kind, Take take) const {
    if (list.kind != Kind::kRows) return;
    const Rows& rows = rows_[static_cast<std::size_t>(list.payload)];
    if (rows.kind != kind) return;
    for (const auto& [begin, end] : rows.ranges)
      for (std::int64_t index = begin; index < end; ++index) take(index);
  }
  const Value* member(const Value& dict, std::string_view key) const;
  void take_segments(const Value& list);
  void take_traces(const Value& list);
  void take_settings(const Value& settings);
  RecordedDevice& device(std::int64_t number);
  void fail(std::string message);

  std::size_t most_values_ = 0, values_ = 0;
  std::string fault_;
  MemoryHistory history_;
  std::vector<RecordedEvent> events_;
  std::vector<std::pair<std::int64_t, std::int64_t>> device_free_;  // by event
  std::vector<RecordedBlock> blocks_;
  std::vector<RecordedSegment> segments_;
  std::vector<Past> pasts_;
  std::vector<Rows> rows_;
  std::vector<std::vector<Value>> lists_;
  std::vector<Dict> dicts_;
  std::vector<std::string> texts_;
  std::unordered_map<std::string, std::int64_t> text_numbers_;
  std::unordered_map<std::uint64_t, std::vector<std::int32_t>> frames_by_hash_, stacks_by_hash_;
  std::unordered_map<std::uint64_t, std::int16_t> streams_;
  std::unordered_map<std::int64_t, std::uint8_t> categories_;
  bool blocks_have_addresses_ = false, events_have_times_ = false, has_compile_context_ = false,
       has_user_metadata_ = false, has_pool_ids_ = false;
};

}  // namespace steelyard
