#include <fmt/format.h>

#include "evidence/pickle_writer.h"
#include "formats/memory_snapshot.h"

namespace steelyard {
namespace {

std::string_view state_of(BlockUse use) {
  switch (use) {
    case BlockUse::kUsed:
      return "active_allocated";
    case BlockUse::kAwaited:
      return "active_pending_free";
    case BlockUse::kFree:
      break;
  }
  return "inactive";
}

class SnapshotWriter {
 public:
  explicit SnapshotWriter(const MemorySnapshot& snapshot)
      : snapshot_(snapshot), frames_(snapshot.frames.size()), stacks_(snapshot.stacks.size()) {}

  std::string text() && {
    pickle_.begin_dict();
    pickle_.string("segments");
    pickle_.begin_list();
    for (std::size_t device = 0; device < snapshot_.devices.size(); ++device)
      for (const SnapshotSegment& segment : snapshot_.devices[device].segments)
        write(segment, static_cast<std::int64_t>(device));
    pickle_.end_list();
    pickle_.string("device_traces");
    pickle_.begin_list();
    for (const DeviceSnapshot& device : snapshot_.devices) write_trace(device);
    pickle_.end_list();
    pickle_.string("allocator_settings");
    write(snapshot_.settings);
    pickle_.end_dict();
    return std::move(pickle_).finish();
  }

 private:
  void pair(std::string_view key, std::int64_t value) {
    pickle_.string(key);
    pickle_.integer(value);
  }
  void pair(std::string_view key, Bytes value) { pair(key, value.value().value()); }
  void pair(std::string_view key, std::string_view value) {
    pickle_.string(key);
    pickle_.string(value);
  }
  // Of its own name, or else text would be taken for a truth.
  void truth(std::string_view key, bool value) {
    pickle_.string(key);
    pickle_.boolean(value);
  }

  void write(const SnapshotSegment& stacked, std::int64_t device) {
    const Segment& segment = stacked.segment;
    Bytes allocated{}, active{}, requested{};
    for (const SegmentBlock& block : segment.blocks) {
      if (block.use == BlockUse::kFree) continue;
      active += block.size;
      requested += block.requested;
      if (block.use == BlockUse::kUsed) allocated += block.size;
    }
    pickle_.begin_dict();
    pair("device", device);
    pair("address", segment.address);
    pair("total_size", segment.size);
    pair("allocated_size", allocated);
    pair("active_size", active);
    pair("requested_size", requested);
    pair("stream", static_cast<std::int64_t>(segment.stream));
    pair("segment_type", std::string_view(segment.small ? "small" : "large"));
    pickle_.string("segment_pool_id");
    pickle_.begin_tuple();
    pickle_.integer(0);
    pickle_.integer(0);
    pickle_.end_tuple();
    truth("is_expandable", segment.page > Bytes{});
    pickle_.string("frames");
    write_stack(stacked.stack);
    pickle_.string("blocks");
    pickle_.begin_list();
    for (std::size_t index = 0; index < segment.blocks.size(); ++index) {
      const SegmentBlock& block = segment.blocks[index];
      pickle_.begin_dict();
      pair("address", block.address);
      pair("size", block.size);
      pair("requested_size", block.requested);
      pair("state", state_of(block.use));
      pickle_.string("frames");
      write_stack(stacked.block_stacks[index]);
      pickle_.end_dict();
    }
    pickle_.end_list();
    pickle_.end_dict();
  }

  void write_trace(const DeviceSnapshot& device) {
    pickle_.begin_list();
    for (std::size_t index = 0; index < device.events.size(); ++index) {
      const HistoryEvent& event = device.events[index];
      const EventNote& note = device.notes[index];
      pickle_.begin_dict();
      pair("action", name_of(event.action));
      pair("addr", event.address);
      pair("size", event.size);
      pair("stream", static_cast<std::int64_t>(event.stream));
      pair("time_us", note.time);
      pickle_.string("frames");
      write_stack(note.stack);
      if (note.category >= 0)
        pair("category",
             std::string_view(snapshot_.categories[static_cast<std::size_t>(note.category)]));
      pickle_.end_dict();
    }
    pickle_.end_list();
  }

  void write_stack(StackId stack) {
    auto& written = stacks_[static_cast<std::size_t>(stack)];
    if (written) return pickle_.recall(*written);
    pickle_.begin_list();
    written = pickle_.remember();
    for (FrameId frame : snapshot_.stacks[static_cast<std::size_t>(stack)]) write_frame(frame);
    pickle_.end_list();
  }

  void write_frame(FrameId id) {
    auto& written = frames_[static_cast<std::size_t>(id)];
    if (written) return pickle_.recall(*written);
    const StackFrame& frame = snapshot_.frames[static_cast<std::size_t>(id)];
    pickle_.begin_dict();
    written = pickle_.remember();
    pair("name", std::string_view(frame.name));
    pair("filename", std::string_view(frame.filename));
    pair("line", frame.line);
    pickle_.end_dict();
  }

  void write(const AllocatorSettings& settings) {
    pickle_.begin_dict();
    pair("PYTORCH_CUDA_ALLOC_CONF", std::string_view(""));
    if (settings.max_split_size)
      pair("max_split_size", *settings.max_split_size);
    else
      pair("max_split_size", std::int64_t{-1});
    pickle_.string("garbage_collection_threshold");
    pickle_.number(settings.garbage_collection_threshold);
    truth("expandable_segments", settings.expandable_segments);
    pickle_.string("roundup_power2_divisions");
    pickle_.begin_dict();
    for (int interval = 0; interval < kRoundupIntervals; ++interval)
      pair(fmt::format("{}", 1 << interval),
           settings.roundup_divisions[static_cast<std::size_t>(interval)]);
    pickle_.end_dict();
    pickle_.end_dict();
  }

  const MemorySnapshot& snapshot_;
  PickleWriter pickle_;
  std::vector<std::optional<PickleWriter::Memo>> frames_, stacks_;
};

}  // namespace

std::string memory_snapshot_pickle(const MemorySnapshot& snapshot) {
  return SnapshotWriter(snapshot).text();
}

}  // namespace steelyard
