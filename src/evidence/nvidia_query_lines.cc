// nvidia-smi --query-gpu=... --format=csv: a header of names, then rows; "nounits" leaves the unit to the header.
//
//   timestamp, index, memory.used [MiB], memory.total [MiB]
//   2026/01/02 03:04:05.678, 0, 70123 MiB, 81559 MiB
//
// Without a header nobody knows which column is which: such a file is not read.
#include <array>

#include "evidence/log_line_readers.h"
#include "evidence/printed.h"

namespace steelyard {
namespace {

constexpr std::array<std::string_view, 3> kQueryWords = {"memory.used", "used_memory",
                                                         "used_gpu_memory"};
constexpr std::string_view kQuery = "nvidia query";
constexpr std::size_t kMostQueryColumns = 256;

std::vector<std::string_view> values_of(std::string_view text) {
  std::vector<std::string_view> values;
  while (values.size() < kMostQueryColumns) {
    const std::size_t comma = text.find(',');
    values.push_back(without_spaces(text.substr(0, comma)));
    if (comma == std::string_view::npos) break;
    text.remove_prefix(comma + 1);
  }
  return values;
}

// "70123 MiB", or "70123" under a header with [MiB]; "[N/A]" and "[Not Supported]" are no data
std::optional<Bytes> query_size(std::string_view value) {
  std::string_view rest = value;
  if (const auto size = take_printed_size(rest)) return size;
  rest = value;
  const auto number = take_printed_number(rest);
  return number && rest.empty() ? printed_bytes(*number, kMebibyte) : std::nullopt;
}

bool read_values_row(const LogLine& line, LogState& state) {
  const auto values = values_of(line.text);
  if (values.size() != state.columns.size()) return false;
  MemoryReading reading;
  reading.source = "nvidia-smi";
  reading.label = "device";
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::string_view name = state.columns[i];
    std::string_view rest = values[i];
    if (name.starts_with("index") || name == "gpu") reading.device = take_printed_integer(rest);
    if (name.starts_with("pid")) reading.label = "process " + std::string(rest.substr(0, 20));
    if (name.starts_with("memory.used") || name.starts_with("used_memory") ||
        name.starts_with("used_gpu_memory"))
      reading.device_used = query_size(values[i]);
    if (name.starts_with("memory.total")) reading.device_total = query_size(values[i]);
  }
  if (reading.device_used) state.add(std::move(reading), line);
  return true;
}

bool read_query_line(const LogLine& line, LogState& state, bool called) {
  const std::string_view text = line.text;
  if (called && text.find(',') != std::string_view::npos &&
      text.find("--query") == std::string_view::npos) {
    bool is_header = false;
    std::vector<std::string> names;
    for (const std::string_view name : values_of(text)) {
      names.emplace_back(name);
      if (name.starts_with("memory.used") || name.starts_with("used_")) is_header = true;
    }
    if (is_header && names.size() > 1) {
      state.columns = std::move(names);
      state.table = std::string(kQuery);
      return true;
    }
  }
  if (state.table != kQuery) return false;
  if (read_values_row(line, state)) return true;
  // Other lines of a log may stand between two samples, not more than a few.
  if (without_spaces(text).empty()) return true;
  state.table.clear();
  return false;
}

}  // namespace

const LogLineReader kNvidiaQueryLines{"nvidia-smi query", kQueryWords, read_query_line};

}  // namespace steelyard
