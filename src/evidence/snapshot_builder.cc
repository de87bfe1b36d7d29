#include "evidence/snapshot_builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "evidence/snapshot_fields.h"

namespace steelyard {
namespace {

constexpr std::size_t kDeepestStack = 16'384;  // frames; a recursion that deep says nothing more
constexpr std::size_t kMostTexts = 2'000'000;
constexpr std::size_t kPickleBatch = 1000;  // items that Python's pickler appends at once
constexpr std::size_t kMostTextBytes = std::size_t{64} << 10;

}  // namespace

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

}  // namespace steelyard
