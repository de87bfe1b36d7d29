#include "evidence/log_reader.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "evidence/log_line_readers.h"
#include "evidence/log_words.h"

namespace steelyard {
namespace {

// Of a line without ends, as of a binary file: what stands behind is no line of a log.
constexpr std::size_t kLongestLine = std::size_t{1} << 20U;
// A line that may name the moment of the one below it.
constexpr std::size_t kShortLine = 200;

const LogWords& words_of_readers() {
  static const LogWords kWords = [] {
    std::vector<std::span<const std::string_view>> sets;
    for (const LogLineReader& reader : log_line_readers()) sets.push_back(reader.words);
    return LogWords(sets);
  }();
  return kWords;
}

bool is_only(const Evidence& evidence, std::string_view source) {
  return !evidence.readings.empty() &&
         std::all_of(evidence.readings.begin(), evidence.readings.end(),
                     [source](const MemoryReading& reading) { return reading.source == source; });
}

// A file that holds one kind of thing alone is called by it.
void name_kind(Evidence& evidence, std::int64_t lines) {
  if (evidence.failures.empty() && evidence.clues.frameworks.empty()) {
    for (const std::string_view source :
         {"nvidia-smi", "dcgm", "memory_summary", "memory_stats", "slurm"})
      if (is_only(evidence, source)) evidence.kind = std::string(source);
  } else if (!evidence.failures.empty() && evidence.readings.empty()) {
    const auto all_are = [&evidence](std::string_view backend) {
      return std::all_of(
          evidence.failures.begin(), evidence.failures.end(),
          [backend](const MemoryFailure& failure) { return failure.backend == backend; });
    };
    if (all_are("kernel"))
      evidence.kind = "kernel";
    else if (all_are("slurm"))
      evidence.kind = "slurm";
    else if (lines <= 40 && evidence.failures.front().kind == MemoryFailure::Kind::kDeviceAllocator)
      evidence.kind = "oom text";
  }
  for (const MemoryFailure& failure : evidence.failures)
    if (evidence.era.empty()) evidence.era = failure.era;
}

}  // namespace

void LogReader::feed(std::string_view line) {
  ++number_;
  while (!line.empty()) {
    const std::size_t end = line.find('\r');
    feed_piece(line.substr(0, end));
    if (end == std::string_view::npos) return;
    line.remove_prefix(end + 1);
  }
  if (open_ != 0) feed_piece({});
}

void LogReader::feed_piece(std::string_view piece) {
  ++state_.lines;
  piece = piece.substr(0, kLongestLine);
  // srun's labels are counted on every line: only where most have one do they name ranks.
  std::size_t at = 0;
  while (at < piece.size() && piece[at] == ' ' && at < 8) ++at;
  const std::size_t digits = at;
  while (at < piece.size() && piece[at] >= '0' && piece[at] <= '9' && at < 16) ++at;
  if (at > digits && at < piece.size() && piece[at] == ':') ++state_.labelled;

  // Lines that no reader wants may still say what time it is.
  if (piece.size() >= 20) {
    const std::size_t front = piece[0] == '[' ? 1 : 0;
    if (piece[front] == '2' && piece[front + 1] == '0' &&
        (piece[front + 4] == '-' || piece[front + 4] == '/'))
      state_.stamp = piece.substr(0, 40);
  }

  const std::uint64_t called = words_of_readers().found_in(piece);
  const std::uint64_t wanted = called | open_;
  if (wanted == 0) {
    state_.previous = piece.size() <= kShortLine ? piece : std::string_view();
    return;
  }
  open_ = 0;
  const LogLine line = read_log_line(piece, number_, state_.year);
  if (line.time) {
    if (line.time->year) state_.year = *line.time->year;
    state_.time = line.time;
  }
  const auto readers = log_line_readers();
  for (std::size_t i = 0; i < readers.size(); ++i) {
    const std::uint64_t bit = std::uint64_t{1} << i;
    if ((wanted & bit) != 0 && readers[i].read(line, state_, (called & bit) != 0)) open_ |= bit;
  }
  state_.previous = piece.size() <= kShortLine ? piece : std::string_view();
}

Evidence LogReader::finish() && {
  // What is open ends with the text.
  if (open_ != 0) feed_piece({});
  if (open_ != 0) feed_piece({});
  state_.finish();
  name_kind(state_.evidence, state_.lines);
  return std::move(state_.evidence);
}

Evidence read_log(std::string_view text, std::string_view name) {
  LogReader reader{std::string(name)};
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    reader.feed(line);
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  return std::move(reader).finish();
}

}  // namespace steelyard
