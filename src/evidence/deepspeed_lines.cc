// DeepSpeed: see_memory_usage, its throughput timer and its memory breakdown.
//
//   After initializing ZeRO optimizer
//   MA 10.6 GB         Max_MA 19.67 GB         CA 23.03 GB         Max_CA 23 GB
//   CPU Virtual Memory:  used = 42.59 GB, percent = 8.5%
//   epoch=0/micro_step=80/global_step=10, RunningAvgSamplesPerSec=171.8, ..., MemAllocated=3.96GB, MaxMemAllocated=22.95GB
//
// GB are 2^30 bytes. Peaks of see_memory_usage are since the line before it; the line above names the moment.
#include <array>

#include "evidence/log_line_readers.h"
#include "evidence/printed.h"

namespace steelyard {
namespace {

constexpr std::array<std::string_view, 8> kDeepSpeedWords = {"Max_MA ",
                                                             "see_memory_usage",
                                                             "CPU Virtual Memory",
                                                             "MaxMemAllocated=",
                                                             "max_mem_allocated: ",
                                                             "[deepspeed]",
                                                             "global_step=",
                                                             "pytorch allocator cache flushes"};

// The message line of see_memory_usage, which stands above its numbers.
void read_moment(std::string_view text, LogState& state) {
  text = without_spaces(text);
  if (text.empty() || text.size() > 120) return;
  state.moment = std::string(text);
}

void read_usage(std::string_view text, const LogLine& line, LogState& state) {
  MemoryReading reading;
  reading.source = "deepspeed";
  reading.allocated = size_behind(text, "MA ", kGibibyte);
  reading.max_allocated = size_behind(text, "Max_MA ", kGibibyte);
  reading.reserved = size_behind(text, "CA ", kGibibyte);
  reading.max_reserved = size_behind(text, "Max_CA ", kGibibyte);
  if (!reading.allocated) return;
  reading.peak_is_since_last = true;
  // Since 2025-11 both are printed without the logger's prefix.
  if (line.origin.empty()) read_moment(state.previous, state);
  reading.label = state.moment;
  reading.step = state.step;
  state.add_framework("deepspeed");
  state.add(std::move(reading), line);
}

void read_host(std::string_view text, const LogLine& line, LogState& state) {
  const auto used = size_behind(text, "used = ", kGibibyte);
  if (!used) return;
  auto& readings = state.evidence.readings;
  // It belongs to the line of the device right above.
  if (!readings.empty() && readings.back().source == "deepspeed" && !readings.back().host_used &&
      readings.back().rank == state.rank_of(line)) {
    readings.back().host_used = used;
    return;
  }
  MemoryReading reading;
  reading.source = "deepspeed";
  reading.host_used = used;
  reading.label = state.moment;
  state.add(std::move(reading), line);
}

void read_timer(std::string_view text, const LogLine& line, LogState& state) {
  MemoryReading reading;
  reading.source = "deepspeed";
  reading.step = integer_behind(text, "global_step=");
  if (reading.step) state.at_step(*reading.step, line);
  reading.allocated = size_behind(text, "MemAllocated=", kGibibyte);
  reading.max_allocated = size_behind(text, "MaxMemAllocated=", kGibibyte);
  if (!reading.allocated) reading.allocated = size_behind(text, "mem_allocated: ", kGibibyte);
  if (!reading.max_allocated)
    reading.max_allocated = size_behind(text, "max_mem_allocated: ", kGibibyte);
  if (!reading.step && !reading.allocated && !reading.max_allocated) return;
  reading.label = "step";
  state.add_framework("deepspeed");
  state.add(std::move(reading), line);
}

bool read_deepspeed_line(const LogLine& line, LogState& state, bool called) {
  const std::string_view text = line.text;
  if (!called) return false;
  if (text.find("Max_MA ") != std::string_view::npos) {
    read_usage(text, line, state);
    return false;
  }
  if (text.find("CPU Virtual Memory") != std::string_view::npos) {
    read_host(text, line, state);
    return false;
  }
  if (text.find("emAllocated=") != std::string_view::npos ||
      text.find("mem_allocated: ") != std::string_view::npos ||
      text.find("global_step=") != std::string_view::npos) {
    read_timer(text, line, state);
    return false;
  }
  if (const auto count = behind(text, "pytorch allocator cache flushes")) {
    MemoryReading reading;
    reading.source = "deepspeed";
    reading.label = "cache flushes since the last step";
    const std::size_t at = text.find(" pytorch allocator cache flushes");
    std::size_t begin = at;
    while (begin > 0 && is_printed_digit(text[begin - 1])) --begin;
    std::string_view number = text.substr(begin, at - begin);
    reading.retries = take_printed_integer(number);
    reading.step = state.step;
    state.add(std::move(reading), line);
    return false;
  }
  if (line.origin.find("see_memory_usage") != std::string::npos) read_moment(text, state);
  return false;
}

}  // namespace

const LogLineReader kDeepSpeedLines{"deepspeed", kDeepSpeedWords, read_deepspeed_line};

}  // namespace steelyard
