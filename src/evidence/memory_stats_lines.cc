// torch.cuda.memory_stats() as it is printed: an OrderedDict, JSON, a dict, or one key a line.
//
//   OrderedDict([('active.all.allocated', 5), ..., ('allocated_bytes.all.current', 14324), ...])
//   {"allocated_bytes.all.current": 14324, "allocated_bytes.all.peak": 15000, ...}
//   DeviceStatsMonitor.on_train_batch_end/allocated_bytes.all.peak      15000            Lightning
//
// Numbers are bytes. Peaks are since the last reset, each on its own.
#include <array>

#include "evidence/log_line_readers.h"
#include "evidence/printed.h"

namespace steelyard {
namespace {

constexpr std::array<std::string_view, 4> kStatsWords = {
    "allocated_bytes.all.", "reserved_bytes.all.", "num_alloc_retries", "num_ooms"};

using SizeField = std::optional<Bytes> MemoryReading::*;
struct StatsKey {
  std::string_view key;
  SizeField field;
};
constexpr std::array<StatsKey, 4> kStatsKeys = {
    {{"allocated_bytes.all.current", &MemoryReading::allocated},
     {"allocated_bytes.all.peak", &MemoryReading::max_allocated},
     {"reserved_bytes.all.current", &MemoryReading::reserved},
     {"reserved_bytes.all.peak", &MemoryReading::max_reserved}}};

// The number behind a key, whatever quotes, commas and colons stand between.
std::optional<std::int64_t> value_behind(std::string_view text, std::string_view key) {
  auto rest = behind_word(text, key);
  if (!rest) return std::nullopt;
  std::size_t at = 0;
  while (at < rest->size() && at < 24 && !is_printed_digit((*rest)[at]) && (*rest)[at] != '-') {
    if (is_printed_word((*rest)[at])) return std::nullopt;
    ++at;
  }
  rest->remove_prefix(at);
  return take_printed_integer(*rest);
}

bool read_stats_line(const LogLine& line, LogState& state, bool called) {
  if (!called) return false;
  const std::string_view text = line.text;
  MemoryReading found;
  for (const StatsKey& known : kStatsKeys)
    if (const auto bytes = value_behind(text, known.key); bytes && *bytes >= 0)
      found.*known.field = Bytes(*bytes);
  found.retries = value_behind(text, "num_alloc_retries");
  found.ooms = value_behind(text, "num_ooms");
  if (!found.allocated && !found.max_allocated && !found.reserved && !found.max_reserved &&
      !found.retries && !found.ooms)
    return false;
  // One key a line: all of them are one reading.
  auto& readings = state.evidence.readings;
  if (!readings.empty() && readings.back().source == "memory_stats") {
    MemoryReading& last = readings.back();
    bool is_new = true;
    for (const StatsKey& known : kStatsKeys)
      if (found.*known.field && last.*known.field) is_new = false;
    if ((found.retries && last.retries) || (found.ooms && last.ooms)) is_new = false;
    if (is_new) {
      for (const StatsKey& known : kStatsKeys)
        if (found.*known.field) last.*known.field = found.*known.field;
      if (found.retries) last.retries = found.retries;
      if (found.ooms) last.ooms = found.ooms;
      return false;
    }
  }
  found.source = "memory_stats";
  found.label = "memory_stats";
  found.step = state.step;
  state.add(std::move(found), line);
  return false;
}

}  // namespace

const LogLineReader kMemoryStatsLines{"memory_stats", kStatsWords, read_stats_line};

}  // namespace steelyard
