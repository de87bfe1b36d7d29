// The history that the outermost value of a snapshot is: its segments and traces by device, its settings, and its era.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "evidence/snapshot_builder.h"

namespace steelyard {

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
  if (traces.size() > static_cast<std::size_t>(kMostDevices))
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
