#include "evidence/log_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "evidence/traceback.h"

namespace steelyard {
namespace {

constexpr std::size_t kMostReadings = 60'000;
constexpr std::int64_t kMostReadingsOfOne = 8'000;  // of one source, label and rank
constexpr std::size_t kMostKinds = 20'000;
constexpr std::size_t kMostFailures = 4'000;
constexpr std::size_t kMostCollectives = 20'000;
constexpr std::size_t kMostClues = 64;
// Lines between a traceback's last frame and its exception, where several ranks write at once.
constexpr std::int64_t kLinesOfException = 40;
// A run that prints so many training lines after a failure has survived it.
constexpr std::int64_t kStepsSurvived = 2;

bool is_about_memory(MemoryFailure::Kind kind) {
  using Kind = MemoryFailure::Kind;
  return kind == Kind::kDeviceAllocator || kind == Kind::kDeviceOutside || kind == Kind::kHost;
}

// A watchdog, a launcher, the kernel and Slurm write beside the program: no frame above their lines is theirs.
bool has_frames(const MemoryFailure& failure) {
  if (failure.kind == MemoryFailure::Kind::kCollectiveTimeout || !failure.fatal) return false;
  for (const std::string_view backend :
       {"kernel", "slurm", "elastic", "deepspeed", "shell", "kubernetes"})
    if (failure.backend == backend) return false;
  return true;
}

bool says_the_same(const MemoryFailure& a, const MemoryFailure& b) {
  return a.kind == b.kind && a.tried == b.tried && a.allocated == b.allocated && a.free == b.free &&
         a.device == b.device && (!a.rank || !b.rank || a.rank == b.rank);
}

}  // namespace

std::string LogState::key_of(const MemoryReading& reading) {
  return reading.source + '/' + reading.label.substr(0, 40) + '/' +
         std::to_string(reading.rank.value_or(-1));
}

LogState::LogState(std::string file) {
  evidence.file = std::move(file);
  evidence.kind = "log";
}

std::optional<std::int64_t> LogState::rank_of(const LogLine& line) const {
  if (line.rank) return line.rank;
  // A number and a colon begin a line of prose, too; where all lines have one, it is srun's.
  if (line.label && labelled * 2 >= lines && labelled > 1) return line.label;
  return std::nullopt;
}

std::optional<ClockTime> LogState::time_before() const {
  if (!stamp.empty())
    if (const auto found = find_clock_time(stamp, year)) return found;
  return time;
}

EvidencePlace LogState::place_of(const LogLine& line) const {
  return {evidence.file, fmt::format("line {}", line.number)};
}

bool LogState::is_repeated(const MemoryFailure& failure) {
  for (std::size_t i = evidence.failures.size(); i-- > 0;) {
    if (noted_[i].start != start || noted_[i].last_step != step.value_or(0)) break;
    MemoryFailure& before = evidence.failures[i];
    if (!says_the_same(before, failure)) continue;
    // Without sizes only the same sentence is the same failure.
    if (!failure.tried && before.message != failure.message) continue;
    if (before.fatal != failure.fatal) continue;
    if (before.frames.empty()) before.frames = failure.frames;
    if (before.phase.empty()) before.phase = failure.phase;
    if (!before.rank) before.rank = failure.rank;
    return true;
  }
  return false;
}

void LogState::add(MemoryFailure failure, const LogLine& line, std::size_t at) {
  if (evidence.failures.size() >= kMostFailures) return;
  if (!failure.rank) failure.rank = rank_of(line);
  if (!failure.rank) failure.rank = rank_before(line.text, at);
  if (!failure.step) failure.step = step;
  auto when = line.time;
  // The clocks of the kernel and of Slurm are their own.
  if (!when && failure.backend != "kernel" && failure.backend != "slurm") when = time_before();
  if (when && failure.time.empty()) {
    failure.time = when->text;
    failure.seconds = when->seconds;
  }
  failure.place = place_of(line);
  Noted noted{start, steps_, step.value_or(0), false};
  for (const std::int64_t rank : {line.rank.value_or(-1), std::int64_t{-1}}) {
    const auto found = tracebacks.find(rank);
    if (!has_frames(failure)) break;
    if (found == tracebacks.end() || found->second.frames.empty()) continue;
    OpenTraceback& traceback = found->second;
    if (line.number - traceback.last_line > kLinesOfException) continue;
    if (failure.frames.empty())
      failure.frames.assign(traceback.frames.rbegin(), traceback.frames.rend());
    // Torch's hook prints "[rank3]: " only for an exception that nobody caught.
    noted.uncaught = line.rank.has_value() && is_about_memory(failure.kind);
    traceback.ended = true;
    break;
  }
  if (failure.phase.empty()) failure.phase = phase_of_frames(failure.frames);
  if (is_repeated(failure)) return;
  evidence.failures.push_back(std::move(failure));
  noted_.push_back(noted);
}

void LogState::add(MemoryReading reading, const LogLine& line) {
  if (!reading.rank) reading.rank = rank_of(line);
  if (!reading.step && !reading.step_seconds && reading.label.empty()) reading.step = step;
  if (line.time && reading.time.empty()) {
    reading.time = line.time->text;
    reading.seconds = line.time->seconds;
  }
  reading.place = place_of(line);
  // A new peak of its source and rank always stays, and so does what is seldom printed.
  Bytes highest(0);
  for (const auto& size : {reading.allocated, reading.max_allocated, reading.reserved,
                           reading.max_reserved, reading.device_used, reading.host_used})
    if (size) highest = std::max(highest, *size);
  if (kept_.size() > kMostKinds) kept_.clear();
  Kept& kept = kept_[key_of(reading)];
  const bool is_peak = highest > kept.peak;
  if (is_peak) kept.peak = highest;
  if (++kept.since < kept.every && !is_peak) return;
  kept.since = 0;
  evidence.readings.push_back(std::move(reading));
  if (++kept.count > kMostReadingsOfOne) {
    const std::string key = key_of(evidence.readings.back());
    thin(&key);
  }
  if (evidence.readings.size() > kMostReadings) thin(nullptr);
}

// Every second reading goes, of one source and rank or of all; but none that rises above all before it, unless all do.
void LogState::thin(const std::string* of) {
  std::map<std::string, Bytes> highest;
  std::map<std::string, std::int64_t> seen;
  std::vector<MemoryReading> left;
  left.reserve(evidence.readings.size());
  for (MemoryReading& reading : evidence.readings) {
    const std::string key = key_of(reading);
    if (of != nullptr && key != *of) {
      left.push_back(std::move(reading));
      continue;
    }
    const std::int64_t number = seen[key]++;
    const Bytes size = reading.max_allocated.value_or(
        reading.allocated.value_or(reading.max_reserved.value_or(Bytes(0))));
    Bytes& before = highest[key];
    const bool rises = size > before && number % 4 != 1;
    before = std::max(before, size);
    if (number % 2 == 1 && !rises) continue;
    left.push_back(std::move(reading));
  }
  evidence.readings = std::move(left);
  for (auto& [key, kept] : kept_) {
    if (of != nullptr && key != *of) continue;
    kept.every *= 2;
    kept.count = 0;
  }
  if (of == nullptr) {
    for (const MemoryReading& reading : evidence.readings) ++kept_[key_of(reading)].count;
    return;
  }
  std::int64_t& count = kept_[*of].count;
  for (const MemoryReading& reading : evidence.readings) count += key_of(reading) == *of ? 1 : 0;
}

void LogState::add(CollectiveState state, const LogLine& line) {
  if (!state.rank) state.rank = rank_of(line);
  state.place = place_of(line);
  if (evidence.collectives.size() < kMostCollectives)
    evidence.collectives.push_back(std::move(state));
}

void LogState::at_step(std::int64_t number, const LogLine&) {
  if (step && number < *step && steps_of_start > 1) begin_start();
  if (!step || number != *step) {
    ++steps_;
    ++steps_of_start;
  }
  step = number;
}

void LogState::begin_start() {
  ++start;
  steps_of_start = 0;
  step.reset();
  tracebacks.clear();
}

void LogState::add_framework(std::string_view name) {
  auto& known = evidence.clues.frameworks;
  if (std::find(known.begin(), known.end(), name) == known.end()) known.emplace_back(name);
}

void LogState::add_clue(std::vector<std::string>& of, std::string_view text, const LogLine& line) {
  if (text.empty() || of.size() >= kMostClues) return;
  if (std::find(of.begin(), of.end(), text) != of.end()) return;
  of.emplace_back(text);
  evidence.clues.places.push_back(place_of(line));
}

void LogState::finish() {
  using Kind = MemoryFailure::Kind;
  auto& failures = evidence.failures;
  for (std::size_t i = 0; i < failures.size(); ++i) {
    const bool went_on = noted_[i].start == start && steps_ - noted_[i].steps >= kStepsSurvived;
    if (went_on && !noted_[i].uncaught && failures[i].kind != Kind::kKilled)
      failures[i].fatal = false;
  }
  // The first fatal one of a launch explains what is killed, or hangs, after it.
  for (std::size_t i = 0; i < failures.size(); ++i) {
    MemoryFailure& later = failures[i];
    for (std::size_t j = 0; j < i && !later.consequence; ++j) {
      const MemoryFailure& first = failures[j];
      if (!first.fatal || first.consequence || noted_[j].start != noted_[i].start) continue;
      const bool follows = later.kind == Kind::kKilled || later.kind == Kind::kCollectiveTimeout ||
                           (later.kind == Kind::kOther && first.kind != Kind::kOther);
      // What a launcher says of an exit code is in the exception above it.
      if (later.kind == Kind::kOther &&
          (later.backend == "elastic" || later.backend == "deepspeed") &&
          first.backend != later.backend)
        later.consequence = true;
      if (follows && first.kind != Kind::kKilled) later.consequence = true;
      if (later.kind == Kind::kCollectiveTimeout && first.kind == Kind::kKilled)
        later.consequence = true;
    }
  }
}

}  // namespace steelyard
