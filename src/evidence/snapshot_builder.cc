#include "evidence/snapshot_builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

namespace steelyard {
namespace {

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
constexpr std::array<std::string_view, kKnownKeys> kKeyNames = {
    "action",      "addr",       "size",     "stream",          "time_us",         "frames",
    "device_free", "pool_id",    "category", "compile_context", "user_metadata",   "name",
    "filename",    "line",       "state",    "requested_size",  "address",         "history",
    "real_size",   "total_size", "device",   "segment_type",    "segment_pool_id", "is_expandable",
    "blocks",      "stage"};

// Words that events, blocks and segments say; their numbers follow those of the keys.
constexpr std::array<std::string_view, 15> kSnapshotWords = {"alloc",
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

constexpr std::size_t kDeepestStack = 16'384;  // frames; a recursion that deep says nothing more
constexpr std::size_t kMostTexts = 2'000'000, kMostFrames = 2'000'000;
constexpr std::size_t kPickleBatch = 1000;  // items that Python's pickler appends at once
constexpr std::int64_t kMostSnapshotDevices = 1024;
constexpr std::size_t kMostTextBytes = std::size_t{64} << 10;
constexpr std::int64_t kLargestSize = std::int64_t{1} << 50;

std::uint64_t mixed(std::uint64_t hash, std::uint64_t value) {
  hash = (hash ^ value) * 0x9E3779B97F4A7C15U;
  return hash ^ (hash >> 29U);
}

}  // namespace

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

SnapshotBuilder::Value SnapshotBuilder::number(double number) {
  Value value{0, 0, Kind::kNumber};
  std::memcpy(&value.payload, &number, sizeof number);
  return value;
}

void SnapshotBuilder::fail(std::string message) {
  if (fault_.empty()) fault_ = std::move(message);
}

bool SnapshotBuilder::room_for(std::size_t values) {
  values_ += values;
  if (values_ <= most_values_) return true;
  fail("the file holds more values than it has bytes: it repeats itself without end");
  return false;
}

SnapshotBuilder::Value SnapshotBuilder::text(std::string_view said) {
  if (texts_.empty()) {
    texts_.reserve(kKnownKeys + kSnapshotWords.size());
    for (const std::string_view name : kKeyNames) texts_.emplace_back(name);
    for (const std::string_view word : kSnapshotWords) texts_.emplace_back(word);
    for (std::size_t index = 0; index < texts_.size(); ++index)
      text_numbers_.emplace(texts_[index], static_cast<std::int64_t>(index));
  }
  const auto [known, is_new] = text_numbers_.try_emplace(
      std::string(said.substr(0, kMostTextBytes)), static_cast<std::int64_t>(texts_.size()));
  if (is_new) texts_.push_back(known->first);
  if (texts_.size() > kMostTexts) fail("more texts than a snapshot has");
  return {known->second, 0, Kind::kText};
}

std::string SnapshotBuilder::shown(const Value& value) const {
  return value.kind == Kind::kText ? texts_[static_cast<std::size_t>(value.payload)] : "?";
}

SnapshotBuilder::Value SnapshotBuilder::tuple(std::span<const Value> items) {
  if (items.size() == 2 && items[0].kind == Kind::kInteger && items[1].kind == Kind::kInteger)
    return {static_cast<std::int64_t>((static_cast<std::uint64_t>(items[0].payload) << 32U) |
                                      static_cast<std::uint32_t>(items[1].payload)),
            0, Kind::kPair};
  return list({0, 0, Kind::kEmptyList}, items);
}

SnapshotBuilder::Value SnapshotBuilder::list(const Value& before, std::span<const Value> items) {
  if (items.empty()) return before;
  if (!room_for(items.size())) return before;
  const Kind kind = items.front().kind;
  const bool alike = std::all_of(items.begin(), items.end(),
                                 [kind](const Value& item) { return item.kind == kind; });
  const bool fresh = before.kind == Kind::kEmptyList;
  if (alike && kind == Kind::kFrame && (fresh || before.kind == Kind::kStack))
    return stack_of(before, items);
  const bool is_row = alike && kind >= Kind::kEvent && kind <= Kind::kPast && kind != Kind::kFrame;
  if (is_row && (fresh || (before.kind == Kind::kRows &&
                           rows_[static_cast<std::size_t>(before.payload)].kind == kind)))
    return rows_of(before, items);
  if (!fresh && before.kind != Kind::kList) {
    fail("a list holds values of different kinds");
    return before;
  }
  Value into = before;
  if (fresh) {
    into.kind = Kind::kList;
    into.payload = static_cast<std::int64_t>(lists_.size());
    lists_.emplace_back();
  }
  auto& list = lists_[static_cast<std::size_t>(into.payload)];
  list.insert(list.end(), items.begin(), items.end());
  return into;
}

SnapshotBuilder::Value SnapshotBuilder::rows_of(const Value& before, std::span<const Value> items) {
  Value into = before;
  if (before.kind == Kind::kEmptyList) {
    into.kind = Kind::kRows;
    into.payload = static_cast<std::int64_t>(rows_.size());
    rows_.emplace_back();
    rows_.back().kind = items.front().kind;
  }
  auto& ranges = rows_[static_cast<std::size_t>(into.payload)].ranges;
  for (const Value& item : items) {
    if (!ranges.empty() && ranges.back().second == item.payload)
      ++ranges.back().second;
    else
      ranges.emplace_back(item.payload, item.payload + 1);
  }
  return into;
}

SnapshotBuilder::Value SnapshotBuilder::stack_of(const Value& before,
                                                 std::span<const Value> items) {
  std::vector<std::int32_t> frames;
  if (before.kind == Kind::kStack) {
    const auto old = history_.stack(static_cast<std::int32_t>(before.payload));
    if (old.size() % kPickleBatch != 0) {
      fail("a list of frames grows one by one");
      return before;
    }
    frames.assign(old.begin(), old.end());
  }
  for (const Value& item : items) {
    if (frames.size() >= kDeepestStack) break;
    frames.push_back(static_cast<std::int32_t>(item.payload));
  }
  std::uint64_t hash = frames.size();
  for (const std::int32_t frame : frames) hash = mixed(hash, static_cast<std::uint64_t>(frame));
  Value into = before;
  into.kind = Kind::kStack;
  std::vector<std::int32_t>& alike = stacks_by_hash_[hash];
  for (const std::int32_t id : alike) {
    const auto other = history_.stack(id);
    if (!std::equal(frames.begin(), frames.end(), other.begin(), other.end())) continue;
    into.payload = id;
    return into;
  }
  into.payload = static_cast<std::int64_t>(history_.stacks());
  history_.stack_frames.insert(history_.stack_frames.end(), frames.begin(), frames.end());
  history_.stack_begins.push_back(history_.stack_frames.size());
  if (alike.size() < 8) alike.push_back(static_cast<std::int32_t>(into.payload));
  return into;
}

SnapshotBuilder::Value SnapshotBuilder::dict(const Value& before,
                                             std::span<const Value> keys_and_values) {
  if (keys_and_values.empty()) return before;
  if (!room_for(keys_and_values.size())) return before;
  Value into = before;
  if (before.kind == Kind::kEmptyDict) {
    const Fields fields(keys_and_values);
    Value made;
    if (fields.has(kKeyAction))
      made = event(fields);
    else if (fields.has(kKeyFilename) && fields.has(kKeyLine))
      made = frame(fields);
    else if (fields.has(kKeyTotalSize) && fields.has(kKeyBlocks))
      made = segment(fields);
    else if (fields.has(kKeyState) && fields.has(kKeySize))
      made = block(fields);
    else if (fields.has(kKeyRealSize)) {
      made = {static_cast<std::int64_t>(pasts_.size()), 0, Kind::kPast};
      const Value* frames = fields.find(kKeyFrames);
      pasts_.push_back(
          {fields.integer(kKeyRealSize).value_or(-1), frames != nullptr ? stack_in(*frames) : 0});
    } else if (fields.has(kKeyStage) && fields.has(kKeyName)) {
      made = annotation(fields);
    } else {
      made = {static_cast<std::int64_t>(dicts_.size()), 0, Kind::kDict};
      dicts_.emplace_back();
    }
    into.kind = made.kind;
    into.payload = made.payload;
  }
  if (into.kind != Kind::kDict) return into;  // a row that grows has had what is read of it
  auto& members = dicts_[static_cast<std::size_t>(into.payload)].members;
  for (std::size_t index = 0; index + 1 < keys_and_values.size(); index += 2)
    if (keys_and_values[index].kind == Kind::kText)
      members.emplace_back(keys_and_values[index].payload, keys_and_values[index + 1]);
  return into;
}

std::int32_t SnapshotBuilder::stack_in(const Value& value) const {
  return value.kind == Kind::kStack ? static_cast<std::int32_t>(value.payload) : 0;
}

// A private pool shares blocks with no other, so its streams have numbers of their own.
std::int16_t SnapshotBuilder::stream_of(std::int64_t stream, std::int64_t pool) {
  if (stream == 0 && pool == 0) return 0;
  const std::uint64_t key =
      mixed(static_cast<std::uint64_t>(stream), static_cast<std::uint64_t>(pool) + 1);
  const auto next = static_cast<std::int16_t>(std::min<std::size_t>(streams_.size() + 1, 32'000));
  return streams_.try_emplace(key, next).first->second;
}

SnapshotBuilder::Value SnapshotBuilder::event(const Fields& fields) {
  RecordedEvent made;
  const std::int64_t word = fields.text(kKeyAction);
  if (word < 0) fail("an event has an \"action\" that is no text");
  if (word >= kWordAlloc && word <= kWordSnapshot)
    made.action = static_cast<RecordedAction>(word - kWordAlloc);
  // An address beyond 2^63 is kept by its bits: it only has to be told from others.
  made.address = fields.integer(kKeyAddr).value_or(0);
  made.size = fields.integer(kKeySize).value_or(0);
  const bool counts = made.action <= RecordedAction::kOom;
  if (counts && (made.size < 0 || made.size > kLargestSize)) {
    fail(fmt::format("an event of {} bytes", made.size));
    made.size = 0;
  }
  if (counts && made.action != RecordedAction::kOom && !fields.integer(kKeyAddr))
    fail("an event has no whole number \"addr\"");
  if (counts && !fields.integer(kKeySize)) fail("an event has no whole number \"size\"");
  made.time = fields.integer(kKeyTime).value_or(0);
  made.stream = stream_of(fields.integer(kKeyStream).value_or(0), fields.pool(kKeyPoolId));
  if (const Value* frames = fields.find(kKeyFrames)) made.stack = stack_in(*frames);
  if (const std::int64_t category = fields.text(kKeyCategory); category >= 0) {
    const auto next =
        static_cast<std::uint8_t>(std::min<std::size_t>(history_.categories.size(), 255));
    const auto [known, is_new] = categories_.try_emplace(category, next);
    if (is_new && next < 255)
      history_.categories.push_back(texts_[static_cast<std::size_t>(category)]);
    made.category = known->second < history_.categories.size() ? known->second : 0;
  }
  if (made.action == RecordedAction::kOom)
    device_free_.emplace_back(static_cast<std::int64_t>(events_.size()),
                              fields.integer(kKeyDeviceFree).value_or(0));
  events_have_times_ = events_have_times_ || fields.has(kKeyTime);
  has_compile_context_ = has_compile_context_ || fields.has(kKeyCompileContext);
  has_user_metadata_ = has_user_metadata_ || fields.has(kKeyUserMetadata);
  has_pool_ids_ = has_pool_ids_ || fields.has(kKeyPoolId);
  events_.push_back(made);
  return {static_cast<std::int64_t>(events_.size() - 1), 0, Kind::kEvent};
}

SnapshotBuilder::Value SnapshotBuilder::frame(const Fields& fields) {
  const std::int64_t name = fields.text(kKeyName);
  const std::int64_t file = fields.text(kKeyFilename);
  const std::int64_t line = fields.integer(kKeyLine).value_or(0);
  const auto text = [this](std::int64_t number) -> const std::string& {
    static const std::string none;
    return number < 0 ? none : texts_[static_cast<std::size_t>(number)];
  };
  const std::uint64_t hash =
      mixed(mixed(static_cast<std::uint64_t>(name + 1), static_cast<std::uint64_t>(file + 1)),
            static_cast<std::uint64_t>(line));
  std::vector<std::int32_t>& alike = frames_by_hash_[hash];
  for (const std::int32_t id : alike) {
    const RecordedFrame& other = history_.frames[static_cast<std::size_t>(id)];
    if (other.line == line && other.name == text(name) && other.file == text(file))
      return {id, 0, Kind::kFrame};
  }
  if (history_.frames.size() >= kMostFrames) fail("more frames than a program has");
  history_.frames.push_back({text(name), text(file), line});
  const auto id = static_cast<std::int32_t>(history_.frames.size() - 1);
  if (alike.size() < 8) alike.push_back(id);
  return {id, 0, Kind::kFrame};
}

SnapshotBuilder::Value SnapshotBuilder::block(const Fields& fields) {
  RecordedBlock made;
  made.size = fields.integer(kKeySize).value_or(-1);
  if (made.size < 0 || made.size > kLargestSize) {
    fail(fmt::format("a block of {} bytes", made.size));
    made.size = 0;
  }
  made.requested = fields.integer(kKeyRequested).value_or(made.size);
  if (const auto address = fields.integer(kKeyAddress)) {
    made.address = *address;
    blocks_have_addresses_ = true;
  }
  const std::int64_t state = fields.text(kKeyState);
  if (state == kWordAllocated)
    made.state = RecordedBlock::State::kAllocated;
  else if (state == kWordPending || state == kWordAwaiting)
    made.state = RecordedBlock::State::kPendingFree;
  else if (state != kWordInactive)
    fail("a block has a state that is not known");
  if (const Value* frames = fields.find(kKeyFrames)) made.stack = stack_in(*frames);
  if (const Value* past = fields.find(kKeyHistory)) {
    bool first = true;
    each_row(*past, Kind::kPast, [&](std::int64_t index) {
      if (!first) return;
      first = false;
      const Past& entry = pasts_[static_cast<std::size_t>(index)];
      if (entry.size >= 0 && entry.size <= made.size &&
          made.state != RecordedBlock::State::kInactive)
        made.requested = entry.size;
      if (made.stack == 0) made.stack = entry.stack;
    });
  }
  made.requested = std::clamp<std::int64_t>(made.requested, 0, made.size);
  blocks_.push_back(made);
  return {static_cast<std::int64_t>(blocks_.size() - 1), 0, Kind::kBlock};
}

SnapshotBuilder::Value SnapshotBuilder::segment(const Fields& fields) {
  RecordedSegment made;
  made.device = fields.integer(kKeyDevice).value_or(0);
  made.address = fields.integer(kKeyAddress).value_or(0);
  made.size = fields.integer(kKeyTotalSize).value_or(-1);
  if (made.size < 0 || made.size > kLargestSize) fail("a segment has no size");
  if (made.device < 0 || made.device >= kMostSnapshotDevices) {
    fail(fmt::format("a segment of device {}", made.device));
    made.device = 0;
  }
  const std::int64_t pool = fields.pool(kKeySegmentPool);
  made.private_pool = pool != 0;
  made.stream = stream_of(fields.integer(kKeyStream).value_or(0), pool);
  made.small = fields.text(kKeySegmentType) == kWordSmall;
  made.expandable = fields.integer(kKeyExpandable).value_or(0) != 0;
  const Value* list = fields.find(kKeyBlocks);
  std::int64_t together = 0;
  if (list->kind != Kind::kRows && list->kind != Kind::kEmptyList)
    fail("a segment has no list \"blocks\"");
  each_row(*list, Kind::kBlock, [&](std::int64_t index) {
    if (!room_for(1)) return;
    RecordedBlock block = blocks_[static_cast<std::size_t>(index)];
    // Before 2.1 a block said no address: it follows from the blocks before it.
    if (block.address == 0) block.address = made.address + together;
    together += block.size;
    made.blocks.push_back(block);
  });
  if (together != made.size) history_.sums_disagree = true;
  segments_.push_back(std::move(made));
  return {static_cast<std::int64_t>(segments_.size() - 1), 0, Kind::kSegment};
}

SnapshotBuilder::Value SnapshotBuilder::annotation(const Fields& fields) {
  RecordedAnnotation made;
  if (const std::int64_t name = fields.text(kKeyName); name >= 0)
    made.name = texts_[static_cast<std::size_t>(name)];
  made.starts = fields.text(kKeyStage) == kWordStart;
  made.device = fields.integer(kKeyDevice).value_or(0);
  made.time = fields.integer(kKeyTime).value_or(0);
  history_.annotations.push_back(std::move(made));
  return {static_cast<std::int64_t>(history_.annotations.size() - 1), 0, Kind::kAnnotation};
}

template <class Take>
void SnapshotBuilder::each_row(const Value& list, Kind kind, Take take) const {
  if (list.kind != Kind::kRows) return;
  const Rows& rows = rows_[static_cast<std::size_t>(list.payload)];
  if (rows.kind != kind) return;
  for (const auto& [begin, end] : rows.ranges)
    for (std::int64_t index = begin; index < end; ++index) take(index);
}

const SnapshotBuilder::Value* SnapshotBuilder::member(const Value& dict,
                                                      std::string_view key) const {
  if (dict.kind != Kind::kDict) return nullptr;
  const auto& members = dicts_[static_cast<std::size_t>(dict.payload)].members;
  for (auto at = members.rbegin(); at != members.rend(); ++at)
    if (texts_[static_cast<std::size_t>(at->first)] == key) return &at->second;
  return nullptr;
}

RecordedDevice& SnapshotBuilder::device(std::int64_t number) {
  const auto index = static_cast<std::size_t>(number);
  if (index >= history_.devices.size()) history_.devices.resize(index + 1);
  return history_.devices[index];
}

void SnapshotBuilder::take_segments(const Value& list) {
  if (list.kind != Kind::kEmptyList && list.kind != Kind::kRows)
    fail("\"segments\" is no list of segments");
  each_row(list, Kind::kSegment, [&](std::int64_t index) {
    RecordedSegment& segment = segments_[static_cast<std::size_t>(index)];
    if (room_for(segment.blocks.size())) device(segment.device).segments.push_back(segment);
  });
}

void SnapshotBuilder::take_traces(const Value& list) {
  if (list.kind == Kind::kEmptyList) {
    history_.has_traces = true;
    return;
  }
  if (list.kind != Kind::kList) return fail("\"device_traces\" is no list of lists");
  history_.has_traces = true;
  const std::vector<Value>& traces = lists_[static_cast<std::size_t>(list.payload)];
  if (traces.size() > static_cast<std::size_t>(kMostSnapshotDevices))
    return fail("a trace for more than 1024 devices");
  for (std::size_t number = 0; number < traces.size() && fault_.empty(); ++number) {
    RecordedDevice& into = device(static_cast<std::int64_t>(number));
    const Value& trace = traces[number];
    if (trace.kind == Kind::kEmptyList) continue;
    if (trace.kind != Kind::kRows) return fail("the trace of a device is no list of events");
    const Rows& rows = rows_[static_cast<std::size_t>(trace.payload)];
    if (rows.kind != Kind::kEvent) return fail("the trace of a device is no list of events");
    // The usual file has one device with events: they are moved, not copied.
    if (rows.ranges.size() == 1 && rows.ranges[0].first == 0 &&
        rows.ranges[0].second == static_cast<std::int64_t>(events_.size()) &&
        traces.size() == number + 1) {
      into.events = std::move(events_);
      events_.clear();
    } else {
      for (const auto& [begin, end] : rows.ranges) {
        if (static_cast<std::size_t>(end) > events_.size() ||
            !room_for(static_cast<std::size_t>(end - begin)))
          break;
        into.events.insert(into.events.end(), events_.begin() + static_cast<std::ptrdiff_t>(begin),
                           events_.begin() + static_cast<std::ptrdiff_t>(end));
      }
    }
    std::size_t before = 0;
    for (const auto& [begin, end] : rows.ranges) {
      for (const auto& [event, free] : device_free_)
        if (event >= begin && event < end)
          into.failures.push_back({before + static_cast<std::size_t>(event - begin), free});
      before += static_cast<std::size_t>(end - begin);
    }
    std::erase_if(into.failures, [&](const RecordedFailure& failure) {
      return failure.event >= into.events.size();
    });
  }
}

void SnapshotBuilder::take_settings(const Value& said) {
  AllocatorSettings& settings = history_.settings;
  if (const Value* split = member(said, "max_split_size");
      split != nullptr && split->kind == Kind::kInteger && split->payload > 0 &&
      split->payload < kLargestSize)
    settings.max_split_size = Bytes(split->payload);
  if (const Value* expandable = member(said, "expandable_segments");
      expandable != nullptr && expandable->kind == Kind::kBool)
    settings.expandable_segments = expandable->payload != 0;
  if (const Value* threshold = member(said, "garbage_collection_threshold");
      threshold != nullptr && threshold->kind == Kind::kNumber) {
    double share = 0;
    std::memcpy(&share, &threshold->payload, sizeof share);
    if (share >= 0 && share <= 1) settings.garbage_collection_threshold = share;
  }
}

MemoryHistory SnapshotBuilder::finish(const Value& root) {
  const bool bare = root.kind == Kind::kRows || root.kind == Kind::kEmptyList;
  if (bare) {
    take_segments(root);
  } else if (root.kind == Kind::kDict) {
    if (const Value* segments = member(root, "segments"))
      take_segments(*segments);
    else
      fail("there is no list \"segments\"");
    if (const Value* traces = member(root, "device_traces")) take_traces(*traces);
    if (const Value* settings = member(root, "allocator_settings")) take_settings(*settings);
  } else {
    fail("it is neither a dict with \"segments\" nor a list of segments");
  }
  const bool has_settings = member(root, "allocator_settings") != nullptr;
  const bool has_annotations = member(root, "external_annotations") != nullptr;
  const bool has_traces = member(root, "device_traces") != nullptr;
  history_.era = bare ? "1.12 or older, or memory_snapshot()"
                 : member(root, "host_segments") != nullptr || has_pool_ids_    ? "2.10 or newer"
                 : has_user_metadata_                                           ? "2.9-2.10"
                 : has_compile_context_                                         ? "2.8"
                 : has_annotations                                              ? "2.6-2.7"
                 : has_settings                                                 ? "2.2-2.5"
                 : events_have_times_ || (has_traces && blocks_have_addresses_) ? "2.1-2.2"
                                                                                : "1.13-2.0";
  // An address that does not grow, or a segment larger than its blocks, is a file that was made or changed by hand.
  for (RecordedDevice& device : history_.devices)
    std::stable_sort(
        device.segments.begin(), device.segments.end(),
        [](const RecordedSegment& a, const RecordedSegment& b) { return a.address < b.address; });
  return std::move(history_);
}

}  // namespace steelyard
