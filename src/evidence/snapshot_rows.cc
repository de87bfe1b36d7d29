// The rows of a history: what one dict of a snapshot says, as an event, a frame, a block, a segment or an annotation.
#include <fmt/format.h>

#include <algorithm>

#include "evidence/snapshot_builder.h"
#include "evidence/snapshot_fields.h"

namespace steelyard {
namespace {

constexpr std::size_t kMostFrames = 2'000'000;

}  // namespace

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
  if (made.device < 0 || made.device >= kMostDevices) {
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

}  // namespace steelyard
