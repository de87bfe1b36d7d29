#include "evidence/snapshot_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "evidence/memory_history.h"
#include "evidence/replay.h"
#include "evidence/snapshot_pickle.h"
#include "evidence/stack_origin.h"
#include "quantity/print.h"

namespace steelyard {
namespace {

constexpr char kPickleStart = '\x80';
constexpr std::size_t kMostFramesOfFailure = 12;

bool holds(std::string_view text, std::string_view word) {
  return text.find(word) != std::string_view::npos;
}

std::vector<std::string> frames_of(const MemoryHistory& history, std::int32_t stack) {
  std::vector<std::string> frames;
  for (const std::int32_t number : history.stack(stack)) {
    const RecordedFrame& frame = history.frames[static_cast<std::size_t>(number)];
    if (!is_python_frame(frame) || frames.size() >= kMostFramesOfFailure) continue;
    frames.push_back(fmt::format("{}:{} {}", frame.file, frame.line, frame.name));
  }
  return frames;
}

MemoryFailure failure_of(const MemoryHistory& history, const DeviceMoment& moment,
                         std::string_view name) {
  const RecordedDevice& device = history.devices[static_cast<std::size_t>(moment.device)];
  const RecordedEvent& event = device.events[moment.event];
  MemoryFailure failure;
  failure.kind = MemoryFailure::Kind::kDeviceAllocator;
  failure.device = moment.device;
  if (event.time > 0) failure.seconds = static_cast<double>(event.time) * 1e-6;
  failure.backend = "cuda";
  failure.tried = Bytes(moment.tried);
  failure.allocated = Bytes(moment.live + moment.rounding);
  failure.reserved = Bytes(moment.reserved);
  failure.unallocated =
      Bytes(std::max<std::int64_t>(moment.reserved - moment.live - moment.rounding, 0));
  failure.free = Bytes(moment.device_free);
  failure.frames = frames_of(history, event.stack);
  failure.message = fmt::format("out of memory: {} requested", print(Bytes(moment.tried)));
  failure.place = {
      std::string(name),
      fmt::format("event {} of device {}",
                  print_count(Checked(static_cast<std::int64_t>(moment.event))), moment.device)};
  return failure;
}

void judge_completeness(const std::vector<DeviceMoment>& moments, Evidence& evidence) {
  const auto incomplete = [&](std::string why) {
    evidence.complete = false;
    if (evidence.why_incomplete.empty()) evidence.why_incomplete = std::move(why);
  };
  if (moments.empty()) return incomplete("no memory was ever allocated in this process");
  const DeviceMoment& first = moments.front();
  if (!first.consistent) incomplete("segments and history disagree: " + first.why);
  if (first.kind == DeviceMoment::Kind::kState)
    incomplete("a state only: no history was recorded, so neither a peak nor growth can be told");
  if (first.base > 0 && first.kind != DeviceMoment::Kind::kState)
    incomplete(
        fmt::format("the history begins late: {} of blocks are older", print(Bytes(first.base))));
}

}  // namespace

std::optional<std::int64_t> rank_of_name(std::string_view name) {
  const auto digits_at = [&](std::size_t at) -> std::optional<std::int64_t> {
    std::int64_t number = 0;
    std::size_t end = at;
    while (end < name.size() && end < at + 9 &&
           std::isdigit(static_cast<unsigned char>(name[end])) != 0)
      number = number * 10 + (name[end++] - '0');
    return end > at ? std::optional(number) : std::nullopt;
  };
  std::optional<std::int64_t> rank;
  for (std::size_t at = name.find("rank"); at != std::string_view::npos;
       at = name.find("rank", at + 1)) {
    std::size_t next = at + 4;
    if (next < name.size() && (name[next] == '_' || name[next] == '-' || name[next] == '=')) ++next;
    if (const auto said = digits_at(next)) rank = said;
  }
  if (rank) return rank;
  // "000003_step_20.pickle" (torchtitan), "snapshot_3.pickle" (Megatron-LM)
  if (name.size() > 7 && name[6] == '_' &&
      std::all_of(name.begin(), name.begin() + 6, [](char c) { return c >= '0' && c <= '9'; }))
    return digits_at(0);
  const std::size_t dot = name.find('.');
  const std::size_t underscore = name.substr(0, dot).rfind('_');
  if (underscore == std::string_view::npos || name.substr(0, 8) != "snapshot") return std::nullopt;
  const auto said = digits_at(underscore + 1);
  const auto end = name.find_first_not_of("0123456789", underscore + 1);
  return end == dot ? said : std::nullopt;
}

int recognise_snapshot(std::string_view head, std::string_view name) {
  if (!head.empty() && head.front() == kPickleStart) {
    if (holds(head, "segments") || holds(head, "device_traces") || holds(head, "total_size"))
      return 100;
    return holds(head, "pg_config") || holds(head, "entries") ? 0 : 20;
  }
  // The index of a checkpoint in parts has a "total_size" too, of weights, and names of weights may hold any word.
  if (!head.empty() && (head.front() == '{' || head.front() == '['))
    return holds(head, "\"device_traces\"") ||
                   (holds(head, "\"total_size\"") &&
                    (holds(head, "\"segments\"") || holds(head, "\"blocks\"")))
               ? 90
               : 0;
  // A pickle by its name alone is refused by the reader of pickles, not read as a text.
  return name.ends_with(".pickle") || name.ends_with(".pkl") ? 60 : 0;
}

tl::expected<Evidence, Diagnostics> read_snapshot(std::string_view bytes, std::string_view name) {
  const bool json = !bytes.empty() && (bytes.front() == '{' || bytes.front() == '[');
  auto history = json ? read_snapshot_json(bytes, name) : read_snapshot_pickle(bytes, name);
  if (!history) return tl::unexpected(std::move(history.error()));
  Evidence evidence;
  evidence.file = std::string(name);
  evidence.kind = "snapshot";
  evidence.era = history->era;
  evidence.rank = rank_of_name(name);
  auto moments = std::make_shared<std::vector<DeviceMoment>>(replay_to_moment(*history));
  for (const DeviceMoment& moment : *moments)
    if (moment.kind == DeviceMoment::Kind::kFailure) {
      evidence.failures.push_back(failure_of(*history, moment, name));
      evidence.failures.back().rank = evidence.rank;
    }
  judge_completeness(*moments, evidence);
  evidence.history = std::make_shared<const MemoryHistory>(std::move(*history));
  evidence.moments = std::move(moments);
  return evidence;
}

}  // namespace steelyard
