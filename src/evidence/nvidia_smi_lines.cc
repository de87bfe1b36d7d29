// The table that nvidia-smi draws: devices, and the processes on them.
//
//   |   0  NVIDIA H100 80GB HBM3          On  | 00000000:19:00.0 Off |                    0 |
//   | N/A   45C    P0   300W / 700W |  70123MiB / 81559MiB |    100%      Default |
//   |    0   N/A  N/A      4711      C   python3                        70110MiB |
//
// Sampled: peaks of milliseconds are missed; what is used is reserved memory, the context and other processes together.
#include <array>

#include "evidence/log_line_readers.h"
#include "evidence/printed.h"

namespace steelyard {
namespace {

constexpr std::array<std::string_view, 4> kTableWords = {"MiB / ", "MiB |",
                                                         "Driver Version: ", " MB | user("};

constexpr std::string_view kNvidiaSmi = "nvidia-smi";

// "|   0  NVIDIA H100 80GB HBM3  On | ..." above the numbers
std::optional<std::int64_t> device_of_row(std::string_view previous) {
  std::string_view text = without_spaces(previous);
  if (!text.starts_with('|')) return std::nullopt;
  text.remove_prefix(1);
  const auto device = take_printed_integer(text);
  return device && text.starts_with("  ") ? device : std::nullopt;
}

void read_usage_row(std::string_view text, const LogLine& line, LogState& state) {
  const std::size_t slash = text.find("MiB / ");
  std::size_t begin = slash;
  while (begin > 0 && is_printed_digit(text[begin - 1])) --begin;
  std::string_view rest = text.substr(begin, slash - begin);
  const auto used = take_printed_number(rest);
  std::string_view behind_slash = text.substr(slash + 6);
  const auto total = take_printed_size(behind_slash);
  if (!used || !total) return;
  MemoryReading reading;
  reading.source = std::string(kNvidiaSmi);
  reading.device = device_of_row(state.previous);
  reading.device_used = printed_bytes(*used, kMebibyte);
  reading.device_total = total;
  reading.label = "device";
  state.add(std::move(reading), line);
}

// "|    0   N/A  N/A      4711      C   python3       70110MiB |", and older ones without the two columns
void read_process_row(std::string_view text, const LogLine& line, LogState& state) {
  const std::size_t end = text.rfind("MiB |");
  std::string_view rest = without_spaces(text);
  if (end == std::string_view::npos || !rest.starts_with('|')) return;
  rest.remove_prefix(1);
  const auto device = take_printed_integer(rest);
  if (!device) return;
  for (int column = 0; column < 2; ++column) {
    while (rest.starts_with(' ')) rest.remove_prefix(1);
    if (rest.starts_with("N/A")) rest.remove_prefix(3);
  }
  const auto pid = take_printed_integer(rest);
  std::size_t begin = end;
  while (begin > 0 && is_printed_digit(text[begin - 1])) --begin;
  std::string_view number = text.substr(begin, end - begin);
  const auto used = take_printed_number(number);
  if (!pid || !used) return;
  MemoryReading reading;
  reading.source = std::string(kNvidiaSmi);
  reading.device = device;
  reading.device_used = printed_bytes(*used, kMebibyte);
  reading.label = "process " + std::to_string(*pid);
  state.add(std::move(reading), line);
}

bool read_table_line(const LogLine& line, LogState& state, bool called) {
  if (!called) return false;
  const std::string_view text = line.text;
  if (text.find("MiB / ") != std::string_view::npos) {
    read_usage_row(text, line, state);
  } else if (text.find("MiB |") != std::string_view::npos) {
    read_process_row(text, line, state);
  } else if (text.find(" MB | user(") != std::string_view::npos ||
             text.find(" MB |") != std::string_view::npos) {
    // gpustat: "[0] NVIDIA H100 | 45'C, 99 % | 70123 / 81559 MB | user(69500M)"
    const std::size_t end = text.find(" MB |");
    const std::size_t bar = text.substr(0, end).rfind("| ");
    if (end == std::string_view::npos || bar == std::string_view::npos) return false;
    std::string_view rest = text.substr(bar + 2);
    const auto used = take_printed_number(rest);
    if (!used || !rest.starts_with(" / ")) return false;
    rest.remove_prefix(3);
    MemoryReading reading;
    reading.source = std::string(kNvidiaSmi);
    reading.label = "gpustat";
    reading.device_used = printed_bytes(*used, kMebibyte);
    reading.device_total = take_printed_size(rest);
    if (auto device = behind(text, "[")) reading.device = take_printed_integer(*device);
    state.add(std::move(reading), line);
  }
  return false;
}

}  // namespace

const LogLineReader kNvidiaSmiLines{"nvidia-smi", kTableWords, read_table_line};

}  // namespace steelyard
