#include "evidence/profiler_trace.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>

#include "evidence/json_scan.h"
#include "evidence/printed.h"
#include "evidence/snapshot_reader.h"
#include "evidence/trace_times.h"

namespace steelyard {
namespace {

constexpr double kMicrosecond = 1e-6;
constexpr double kLatest = 1e17;  // microseconds
constexpr std::size_t kMostSteps = 100'000;
constexpr std::size_t kMostTraceDevices = 1024;

// One event: what is wanted of it.
struct TraceEvent {
  char phase = ' ';
  std::string_view category, name;
  double start = 0.0, duration = 0.0;  // microseconds
  std::optional<double> device_type, device, bytes, total_allocated, total_reserved;
  std::string_view collective;
};

struct Interval {
  double begin = 0.0, end = 0.0;
};

bool is_category(std::string_view category, std::string_view name) {
  return category.size() == name.size() &&
         std::equal(category.begin(), category.end(), name.begin(), [](char a, char b) {
           return (a >= 'A' && a <= 'Z' ? static_cast<char>(a - 'A' + 'a') : a) == b;
         });
}

bool is_communication(std::string_view name) {
  constexpr std::array<std::string_view, 8> kNames = {
      "nccl", "Nccl", "NCCL", "nvshmem", "deep_ep", "symm_mem", "_shot_all_reduce", "mscclpp"};
  return std::any_of(kNames.begin(), kNames.end(), [name](std::string_view part) {
    return name.find(part) != std::string_view::npos;
  });
}

// "ncclDevKernel_AllReduce_Sum_f32_RING_LL(...)" and "ncclKernel_AllReduce_RING_LL_Sum_float(...)": all_reduce
std::string operation_of(const TraceEvent& event) {
  if (!event.collective.empty()) return std::string(event.collective.substr(0, 64));
  constexpr std::array<std::array<std::string_view, 2>, 7> kOperations = {
      {{"AllReduce", "all_reduce"},
       {"AllGather", "all_gather"},
       {"ReduceScatter", "reduce_scatter"},
       {"SendRecv", "send_recv"},
       {"Broadcast", "broadcast"},
       {"all_reduce", "all_reduce"},
       {"Reduce", "reduce"}}};
  for (const auto& known : kOperations)
    if (event.name.find(known[0]) != std::string_view::npos) return std::string(known[1]);
  return "other";
}

// Merges in place: sorted, without overlaps.
void unite(std::vector<Interval>& intervals) {
  std::sort(intervals.begin(), intervals.end(),
            [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
  std::size_t to = 0;
  for (std::size_t from = 1; from < intervals.size(); ++from) {
    if (intervals[from].begin <= intervals[to].end)
      intervals[to].end = std::max(intervals[to].end, intervals[from].end);
    else
      intervals[++to] = intervals[from];
  }
  if (!intervals.empty()) intervals.resize(to + 1);
}

double length_of(const std::vector<Interval>& intervals) {
  double sum = 0.0;
  for (const Interval& interval : intervals) sum += interval.end - interval.begin;
  return sum;
}

class TraceReader {
 public:
  TraceReader(std::string_view bytes, std::string_view name) : scan_(bytes), name_(name) {}

  Evidence read() {
    evidence_.file = std::string(name_);
    evidence_.kind = "profiler trace";
    evidence_.rank = rank_of_name(name_);
    if (scan_.peek() == '[') {
      read_events();
    } else if (scan_.enter('{')) {
      std::string_view key;
      while (scan_.next_member(key)) {
        if (key == "traceEvents")
          read_events();
        else if (key == "deviceProperties")
          read_devices();
        else if (key == "distributedInfo")
          read_distributed();
        else
          scan_.skip();
      }
    }
    finish();
    return std::move(evidence_);
  }

 private:
  void read_devices() {
    if (!scan_.enter('[')) return scan_.skip();
    while (scan_.next_item()) {
      if (!scan_.enter('{')) {
        scan_.skip();
        continue;
      }
      std::string_view key;
      while (scan_.next_member(key)) {
        if (key != "totalGlobalMem") {
          scan_.skip();
          continue;
        }
        const auto total = scan_.number();
        if (total && !times_.device_total) times_.device_total = printed_bytes(*total, 1.0);
        if (!total) scan_.skip();
      }
    }
  }

  void read_distributed() {
    if (!scan_.enter('{')) return scan_.skip();
    std::string_view key;
    while (scan_.next_member(key)) {
      const bool rank = key == "rank";
      if (!rank && key != "world_size") {
        scan_.skip();
        continue;
      }
      const auto number = scan_.number();
      if (!number) {
        scan_.skip();
        continue;
      }
      if (*number >= 0 && *number < 1e7)
        (rank ? times_.rank : times_.world_size) = std::llround(*number);
    }
  }

  void read_events() {
    if (!scan_.enter('[')) return scan_.skip();
    while (scan_.next_item()) {
      if (!scan_.enter('{')) {
        scan_.skip();
        continue;
      }
      TraceEvent event;
      read_event(event);
      if (scan_.cut()) break;
      take(event);
    }
  }

  void read_event(TraceEvent& event) {
    std::string_view key;
    while (scan_.next_member(key)) {
      if (key == "ph") {
        const auto phase = scan_.string();
        if (phase && !phase->empty()) event.phase = phase->front();
        if (!phase) scan_.skip();
      } else if (key == "cat" || key == "name") {
        const auto text = scan_.string();
        if (!text) scan_.skip();
        (key == "cat" ? event.category : event.name) = text.value_or(std::string_view());
      } else if (key == "ts" || key == "dur") {
        const auto number = scan_.number();
        if (!number) scan_.skip();
        (key == "ts" ? event.start : event.duration) = number.value_or(0.0);
      } else if (key == "args" && scan_.enter('{')) {
        read_arguments(event);
      } else {
        scan_.skip();
      }
    }
  }

  void read_arguments(TraceEvent& event) {
    std::string_view key;
    while (scan_.next_member(key)) {
      std::optional<double>* wanted = nullptr;
      if (key == "Device Type")
        wanted = &event.device_type;
      else if (key == "Device Id")
        wanted = &event.device;
      else if (key == "Bytes")
        wanted = &event.bytes;
      else if (key == "Total Allocated")
        wanted = &event.total_allocated;
      else if (key == "Total Reserved")
        wanted = &event.total_reserved;
      if (wanted != nullptr) {
        *wanted = scan_.number();
        if (!*wanted) scan_.skip();
      } else if (key == "Collective name") {
        const auto text = scan_.string();
        if (!text) scan_.skip();
        event.collective = text.value_or(std::string_view());
      } else {
        scan_.skip();
      }
    }
  }

  void take(const TraceEvent& event) {
    if (event.name == "[memory]" || event.name == "[OutOfMemory]") {
      take_memory(event);
      return;
    }
    // A time that no clock shows is a broken number.
    if (event.phase != 'X' || !(event.duration >= 0.0) || !(event.duration < kLatest) ||
        !(event.start < kLatest) || !(event.start > -kLatest))
      return;
    if (is_category(event.category, "kernel") || is_category(event.category, "gpu_memcpy") ||
        is_category(event.category, "gpu_memset") || is_category(event.category, "memcpy") ||
        is_category(event.category, "memset")) {
      take_device(event);
      return;
    }
    if (is_category(event.category, "gpu_user_annotation")) return;
    if (event.name.starts_with("ProfilerStep#")) {
      std::string_view number = event.name.substr(13);
      if (const auto step = take_printed_integer(number); step && times_.steps.size() < kMostSteps)
        times_.steps.push_back({*step, event.duration * kMicrosecond});
    } else if (event.name.starts_with("enumerate(DataLoader)")) {
      times_.data_loader_seconds += event.duration * kMicrosecond;
    } else if (event.name == "cudaMalloc" || event.name == "cudaFree" ||
               event.name == "hipMalloc" || event.name == "hipFree") {
      ++times_.driver_allocations;
    } else if (event.name.ends_with("StreamSynchronize") ||
               event.name.ends_with("DeviceSynchronize") ||
               event.name.ends_with("EventSynchronize")) {
      times_.synchronize_seconds += event.duration * kMicrosecond;
    }
  }

  void take_device(const TraceEvent& event) {
    const Interval interval{event.start, event.start + event.duration};
    ++times_.kernels;
    const bool communication =
        is_category(event.category, "kernel") && is_communication(event.name);
    (communication ? communication_ : computing_).push_back(interval);
    if (!communication) return;
    TraceCollective& collective = times_.collectives[operation_of(event)];
    ++collective.count;
    collective.seconds += event.duration * kMicrosecond;
    // Names of others: no more of them than any library has.
    if (times_.collectives.size() > 256) times_.collectives.erase(times_.collectives.begin());
  }

  ProfiledMemory* memory_of(std::int64_t device) {
    for (ProfiledMemory& memory : times_.memory)
      if (memory.device == device) return &memory;
    if (times_.memory.size() >= kMostTraceDevices) return nullptr;
    times_.memory.push_back({});
    times_.memory.back().device = device;
    running_.push_back(0.0);
    return &times_.memory.back();
  }

  void take_memory(const TraceEvent& event) {
    if (!event.device_type || *event.device_type < 1 || !event.device || *event.device < 0 ||
        *event.device > 1e6)
      return;
    const auto device = static_cast<std::int64_t>(*event.device);
    const auto allocated =
        event.total_allocated ? printed_bytes(*event.total_allocated, 1.0) : std::nullopt;
    const auto reserved =
        event.total_reserved ? printed_bytes(*event.total_reserved, 1.0) : std::nullopt;
    if (event.name == "[OutOfMemory]") {
      if (evidence_.failures.size() >= 1000) return;
      MemoryFailure failure;
      failure.kind = MemoryFailure::Kind::kDeviceAllocator;
      failure.device = device;
      if (event.bytes) failure.tried = printed_bytes(std::abs(*event.bytes), 1.0);
      failure.allocated = allocated;
      failure.reserved = reserved;
      failure.message = "[OutOfMemory] in the profiler's trace";
      failure.place = {evidence_.file, "event [OutOfMemory]"};
      evidence_.failures.push_back(std::move(failure));
      return;
    }
    ProfiledMemory* const memory = memory_of(device);
    if (memory == nullptr) return;
    ++memory->events;
    if (allocated) {
      memory->peak_allocated = std::max(memory->peak_allocated, *allocated);
      if (reserved) memory->peak_reserved = std::max(memory->peak_reserved, *reserved);
      return;
    }
    memory->from_start = true;
    double& sum = running_[static_cast<std::size_t>(memory - times_.memory.data())];
    if (std::abs(event.bytes.value_or(0.0)) < 1e18) sum += event.bytes.value_or(0.0);
    if (const auto size = printed_bytes(sum, 1.0))
      memory->peak_allocated = std::max(memory->peak_allocated, *size);
  }

  void sum_up() {
    std::vector<Interval> all = computing_;
    all.insert(all.end(), communication_.begin(), communication_.end());
    unite(all);
    unite(computing_);
    unite(communication_);
    times_.device_activity = !all.empty();
    if (all.empty()) return;
    const double busy = length_of(all);
    times_.span_seconds = (all.back().end - all.front().begin) * kMicrosecond;
    times_.busy_seconds = busy * kMicrosecond;
    times_.idle_seconds = times_.span_seconds - times_.busy_seconds;
    times_.communication_seconds = length_of(communication_) * kMicrosecond;
    // What is busy and does not compute.
    times_.exposed_seconds = (busy - length_of(computing_)) * kMicrosecond;
  }

  void finish() {
    sum_up();
    if (times_.rank) evidence_.rank = times_.rank;
    evidence_.clues.world_size = times_.world_size;
    if (scan_.cut()) {
      evidence_.complete = false;
      evidence_.why_incomplete = "the trace ends in the middle: what follows was not written";
    } else if (!times_.device_activity) {
      evidence_.complete = false;
      evidence_.why_incomplete = "no GPU activity recorded: the profiler saw the host alone";
    }
    for (MemoryFailure& failure : evidence_.failures) failure.rank = evidence_.rank;
    for (const ProfiledMemory& memory : times_.memory) {
      MemoryReading reading;
      reading.source = "profiler trace";
      reading.rank = evidence_.rank;
      reading.device = memory.device;
      // Without totals the base is not known: a sum since the start is no allocated memory.
      if (!memory.from_start) {
        reading.max_allocated = memory.peak_allocated;
        reading.max_reserved = memory.peak_reserved;
      }
      reading.device_total = times_.device_total;
      reading.label = "peak of the profiled steps";
      reading.place = {evidence_.file, "events [memory]"};
      evidence_.readings.push_back(std::move(reading));
    }
    for (const TraceStep& step : times_.steps) {
      MemoryReading reading;
      reading.source = "profiler trace";
      reading.rank = evidence_.rank;
      reading.step = step.number;
      reading.step_seconds = step.seconds;
      reading.label = "step";
      reading.place = {evidence_.file, "ProfilerStep#" + std::to_string(step.number)};
      evidence_.readings.push_back(std::move(reading));
    }
    evidence_.trace = std::make_shared<const TraceTimes>(std::move(times_));
  }

  JsonScan scan_;
  std::string_view name_;
  Evidence evidence_;
  TraceTimes times_;
  std::vector<Interval> computing_, communication_;
  std::vector<double> running_;  // beside times_.memory
};

}  // namespace

int recognise_profiler_trace(std::string_view head, std::string_view name) {
  const auto has = [head](std::string_view words) {
    return head.find(words) != std::string_view::npos;
  };
  const std::size_t first = head.find_first_not_of(" \r\n\t");
  if (first == std::string_view::npos || (head[first] != '{' && head[first] != '[')) return 0;
  if (has("\"traceEvents\"")) return 95;
  if (has("\"schemaVersion\"") && (has("\"deviceProperties\"") || has("\"traceName\""))) return 90;
  if (head[first] == '[' && has("\"ph\"") && has("\"ts\"")) return 80;
  return name.find(".pt.trace.json") != std::string_view::npos ? 60 : 0;
}

tl::expected<Evidence, Diagnostics> read_profiler_trace(std::string_view bytes,
                                                        std::string_view name) {
  return TraceReader(bytes, name).read();
}

}  // namespace steelyard
