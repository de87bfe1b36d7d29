// nvidia-smi dmon and pmon: two lines of names and units, repeated with every screen, then rows.
//
//   # gpu     sm    mem     fb   bar1
//   # Idx      %      %     MB     MB
//       0     98     41  70123      5
//
// "mem" is the use of its bandwidth; the memory is "fb", in MB of 2^20 bytes, and only there with -s m.
#include <array>

#include "evidence/log_line_readers.h"
#include "evidence/printed.h"

namespace steelyard {
namespace {

constexpr std::array<std::string_view, 2> kMonitorWords = {"# gpu ", "#Entity"};
constexpr std::string_view kMonitor = "nvidia monitor";
constexpr std::size_t kMostMonitorColumns = 64;

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  while (words.size() < kMostMonitorColumns) {
    const std::size_t begin = text.find_first_not_of(' ');
    if (begin == std::string_view::npos) break;
    text.remove_prefix(begin);
    const std::size_t end = text.find(' ');
    words.push_back(text.substr(0, end));
    if (end == std::string_view::npos) break;
    text.remove_prefix(end);
  }
  return words;
}

bool read_monitor_line(const LogLine& line, LogState& state, bool called) {
  const std::string_view text = without_spaces(line.text);
  if (called && text.starts_with("# gpu")) {
    state.columns.clear();
    for (const std::string_view word : words_of(text.substr(1))) state.columns.emplace_back(word);
    state.table = std::string(kMonitor);
    return true;
  }
  if (state.table != kMonitor) return false;
  if (text.starts_with('#') || text.empty()) return true;
  const auto words = words_of(text);
  std::string_view first = words.empty() ? std::string_view() : words.front();
  if (!take_printed_integer(first) || !first.empty()) {
    state.table.clear();
    return false;
  }
  MemoryReading reading;
  reading.source = "nvidia-smi";
  reading.label = "monitor";
  for (std::size_t i = 0; i < words.size() && i < state.columns.size(); ++i) {
    std::string_view rest = words[i];
    if (state.columns[i] == "gpu") reading.device = take_printed_integer(rest);
    if (state.columns[i] == "pid" && rest != "-") reading.label = "process " + std::string(rest);
    if (state.columns[i] == "fb")
      if (const auto used = take_printed_number(rest))
        reading.device_used = printed_bytes(*used, kMebibyte);
  }
  if (reading.device_used) state.add(std::move(reading), line);
  return true;
}

}  // namespace

const LogLineReader kNvidiaMonitorLines{"nvidia-smi monitor", kMonitorWords, read_monitor_line};

}  // namespace steelyard
