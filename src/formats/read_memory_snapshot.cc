#include <fmt/format.h>

#include <map>
#include <unordered_map>

#include "allocator/request_sizes.h"
#include "evidence/pickle.h"
#include "formats/memory_snapshot.h"

namespace steelyard {
namespace {

constexpr std::size_t kMostProblems = 8;
constexpr std::int64_t kMostDevices = 1024;
constexpr std::size_t kMostKeys = 64;  // of an event, segment, block or frame: they have about ten
constexpr std::int64_t kHighestAddress = std::int64_t{1} << 62;

class SnapshotReader {
 public:
  explicit SnapshotReader(std::string_view source) : source_(source) {}

  tl::expected<MemorySnapshot, Diagnostics> read(const PickleValue& root) && {
    if (!root.is_dict()) {
      fault(root, "the pickle holds no memory snapshot: a dict with segments and device_traces");
      return tl::unexpected(std::move(problems_));
    }
    const auto segments = root.find("segments");
    const auto traces = root.find("device_traces");
    if (!segments || !segments->is_list()) fault(root, "the snapshot has no list \"segments\"");
    if (traces && traces->is_list())
      for (std::size_t device = 0; device < traces->size() && goes_on(); ++device)
        read_trace(traces->item(device), this->device(static_cast<std::int64_t>(device)));
    else if (traces)
      fault(*traces, "\"device_traces\" is no list");
    if (segments && segments->is_list())
      for (std::size_t index = 0; index < segments->size() && goes_on(); ++index)
        read_segment(segments->item(index));
    if (const auto settings = root.find("allocator_settings")) read_settings(*settings);
    if (!problems_.empty()) return tl::unexpected(std::move(problems_));
    return std::move(snapshot_);
  }

 private:
  bool goes_on() const { return problems_.size() < kMostProblems; }
  void fault(const PickleValue& at, std::string message) {
    if (!goes_on()) return;
    Diagnostic problem;
    problem.code = "E115";
    problem.message = std::move(message);
    problem.place.source = fmt::format("{}, byte {}", source_, at.offset());
    problems_.push_back(std::move(problem));
  }

  // What a needed key has; a fault, and zero, without it.
  std::int64_t integer(const PickleValue& dict, std::string_view key) {
    const auto value = dict.find(key);
    const auto number = value ? value->as_integer() : std::nullopt;
    if (number) return *number;
    fault(value ? *value : dict,
          fmt::format("\"{}\" is {}", key, value ? "no whole number" : "missing"));
    return 0;
  }
  Bytes size(const PickleValue& dict, std::string_view key) {
    const std::int64_t number = integer(dict, key);
    if (number >= 0 && number < kRefusedRequest) return Bytes(number);
    fault(dict, fmt::format("\"{}\" is {}, which is no size", key, number));
    return Bytes{};
  }
  std::optional<std::int64_t> integer_if_there(const PickleValue& dict, std::string_view key) {
    const auto value = dict.find(key);
    return value ? value->as_integer() : std::nullopt;
  }

  std::int64_t address(const PickleValue& dict, std::string_view key) {
    const std::int64_t number = integer(dict, key);
    if (number >= 0 && number <= kHighestAddress) return number;
    fault(dict, fmt::format("\"{}\" is {}, which is no address", key, number));
    return 0;
  }
  bool is_small_dict(const PickleValue& value, std::string_view what) {
    if (value.is_dict() && value.size() <= kMostKeys) return true;
    fault(value, fmt::format("{} is {}", what,
                             value.is_dict() ? fmt::format("a dict of {} keys", value.size())
                                             : std::string("no dict")));
    return false;
  }

  DeviceSnapshot& device(std::int64_t number) {
    const auto index = static_cast<std::size_t>(number);
    if (index >= snapshot_.devices.size()) snapshot_.devices.resize(index + 1);
    return snapshot_.devices[index];
  }

  // A private pool shares blocks with no other, so its streams have numbers of their own.
  StreamId stream_of(const PickleValue& dict, std::string_view pool_key) {
    std::pair<std::int64_t, std::int64_t> pool{0, 0};
    if (const auto id = dict.find(pool_key); id && id->is_list() && id->size() == 2)
      pool = {id->item(0).as_integer().value_or(0), id->item(1).as_integer().value_or(0)};
    const std::int64_t stream = integer_if_there(dict, "stream").value_or(0);
    if (stream == 0 && pool == std::pair<std::int64_t, std::int64_t>{0, 0}) return kDefaultStream;
    const auto next = static_cast<StreamId>(streams_.size() + 1);
    return streams_.try_emplace({pool, stream}, next).first->second;
  }

  void read_trace(const PickleValue& trace, DeviceSnapshot& into) {
    if (!trace.is_list()) return fault(trace, "the trace of a device is no list");
    into.events.reserve(trace.size());
    into.notes.reserve(trace.size());
    for (std::size_t index = 0; index < trace.size() && goes_on(); ++index)
      read_event(trace.item(index), into);
  }

  void read_event(const PickleValue& said, DeviceSnapshot& into) {
    if (!is_small_dict(said, "an event of the trace")) return;
    const auto action = said.find("action");
    const auto word = action ? action->as_string() : std::nullopt;
    if (!word) return fault(said, "an event has no \"action\"");
    // A word of a PyTorch that is newer than this changes no block that is known of.
    HistoryEvent event;
    event.action = history_action_named(*word).value_or(HistoryAction::kOther);
    if (event.action != HistoryAction::kOther) {
      event.address = address(said, "addr");
      event.size = size(said, "size");
      event.stream = stream_of(said, "pool_id");
    }
    into.events.push_back(event);
    EventNote note;
    note.time = integer_if_there(said, "time_us").value_or(0);
    note.stack = stack_of(said);
    if (const auto category = said.find("category"))
      if (const auto name = category->as_string()) note.category = category_named(*name);
    into.notes.push_back(note);
  }

  void read_segment(const PickleValue& said) {
    if (!is_small_dict(said, "a segment")) return;
    SnapshotSegment into;
    Segment& segment = into.segment;
    const std::int64_t number = integer_if_there(said, "device").value_or(0);
    if (number < 0 || number >= kMostDevices)
      return fault(said, fmt::format("\"device\" is {}", number));
    segment.address = address(said, "address");
    segment.size = size(said, "total_size");
    segment.stream = stream_of(said, "segment_pool_id");
    const auto type = said.find("segment_type");
    segment.small = type && type->as_string() == "small";
    const auto expandable = said.find("is_expandable");
    if (expandable && expandable->as_bool().value_or(false))
      segment.page = Bytes(segment.small ? kSmallSegment : 10 * kSmallSegment);
    into.stack = stack_of(said);
    const auto blocks = said.find("blocks");
    if (!blocks || !blocks->is_list()) return fault(said, "a segment has no list \"blocks\"");
    Bytes together{};
    for (std::size_t index = 0; index < blocks->size() && goes_on() && together <= segment.size;
         ++index)
      together += read_block(blocks->item(index), segment.address + together.value().value(), into);
    if (goes_on() && together != segment.size)
      fault(said, fmt::format("the blocks of a segment of {} bytes sum to {}",
                              segment.size.value().value(), together.value().value()));
    device(number).segments.push_back(std::move(into));
  }

  // Before 2.1 a block said no address: it follows from the blocks before it.
  Bytes read_block(const PickleValue& said, std::int64_t address, SnapshotSegment& into) {
    if (!is_small_dict(said, "a block")) return Bytes{};
    SegmentBlock block;
    block.address = address;
    block.size = size(said, "size");
    block.requested = said.find("requested_size") ? size(said, "requested_size") : block.size;
    const auto state = said.find("state");
    const auto word = state ? state->as_string() : std::nullopt;
    if (word == "active_allocated")
      block.use = BlockUse::kUsed;
    else if (word == "active_pending_free" || word == "active_awaiting_free")
      block.use = BlockUse::kAwaited;
    else if (word != "inactive")
      fault(said, fmt::format("the state of a block is \"{}\"", word.value_or("")));
    into.segment.blocks.push_back(block);
    into.block_stacks.push_back(stack_of(said));
    return block.size;
  }

  // Lists of frames that are shared in the file are read once; equal ones of shared frames are one stack.
  StackId stack_of(const PickleValue& said) {
    const auto frames = said.find("frames");
    if (!frames || !frames->is_list() || frames->size() == 0) return kNoStack;
    const auto [known, is_new] = stack_of_list_.try_emplace(frames->id(), kNoStack);
    if (!is_new) return known->second;
    std::vector<FrameId> stack;
    for (std::size_t index = 0; index < frames->size(); ++index)
      stack.push_back(frame_of(frames->item(index)));
    const auto next = static_cast<StackId>(snapshot_.stacks.size());
    const auto [same, is_first] = stack_of_frames_.try_emplace(stack, next);
    if (is_first) snapshot_.stacks.push_back(std::move(stack));
    stack_of_list_[frames->id()] = same->second;
    return same->second;
  }

  FrameId frame_of(const PickleValue& said) {
    const auto [known, is_new] = frame_of_dict_.try_emplace(said.id(), 0);
    if (!is_new) return known->second;
    if (!is_small_dict(said, "a frame")) return 0;
    StackFrame frame;
    if (const auto name = said.find("name")) frame.name = name->as_string().value_or("");
    if (const auto file = said.find("filename")) frame.filename = file->as_string().value_or("");
    frame.line = integer_if_there(said, "line").value_or(0);
    const auto next = static_cast<FrameId>(snapshot_.frames.size());
    const auto [same, is_first] =
        frame_said_.try_emplace({frame.name, frame.filename, frame.line}, next);
    if (is_first) snapshot_.frames.push_back(std::move(frame));
    frame_of_dict_[said.id()] = same->second;
    return same->second;
  }

  std::int32_t category_named(std::string_view name) {
    std::vector<std::string>& known = snapshot_.categories;
    for (std::size_t index = 0; index < known.size(); ++index)
      if (known[index] == name) return static_cast<std::int32_t>(index);
    known.emplace_back(name);
    return static_cast<std::int32_t>(known.size() - 1);
  }

  void read_settings(const PickleValue& said) {
    AllocatorSettings& settings = snapshot_.settings;
    const std::int64_t split = integer_if_there(said, "max_split_size").value_or(-1);
    if (split > 0) settings.max_split_size = Bytes(split);
    if (const auto threshold = said.find("garbage_collection_threshold"))
      settings.garbage_collection_threshold = threshold->as_number().value_or(0);
    if (const auto expandable = said.find("expandable_segments"))
      settings.expandable_segments = expandable->as_bool().value_or(false);
    const auto divisions = said.find("roundup_power2_divisions");
    for (int interval = 0; divisions && interval < kRoundupIntervals; ++interval)
      settings.roundup_divisions[static_cast<std::size_t>(interval)] =
          integer_if_there(*divisions, fmt::format("{}", 1 << interval)).value_or(0);
  }

  std::string source_;
  MemorySnapshot snapshot_;
  Diagnostics problems_;
  std::map<std::pair<std::pair<std::int64_t, std::int64_t>, std::int64_t>, StreamId> streams_;
  std::unordered_map<std::uint32_t, StackId> stack_of_list_;
  std::unordered_map<std::uint32_t, FrameId> frame_of_dict_;
  std::map<std::vector<FrameId>, StackId> stack_of_frames_;
  std::map<std::tuple<std::string, std::string, std::int64_t>, FrameId> frame_said_;
};

}  // namespace

tl::expected<MemorySnapshot, Diagnostics> read_memory_snapshot(std::string_view bytes,
                                                               std::string_view source_name) {
  const auto pickle = read_pickle(bytes, source_name);
  if (!pickle) return tl::unexpected(pickle.error());
  return SnapshotReader(source_name).read(pickle->root());
}

}  // namespace steelyard
