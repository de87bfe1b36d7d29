// Memory lines of frameworks that print a label and a size: one row of a table each.
//
//   torchtune   "  GPU peak memory active: 12.34 GiB"          a block of three lines
//   nanotron    " Memory usage: 123.45MiB. Peak allocated 456.70MiB. Peak reserved: 512.00MiB"
//   litgpt      "Memory used: 12.34 GB"                        of 10^9 bytes
//   verl        "After init, memory allocated (GB): 1.20, memory reserved (GB): 2.00, device memory used/total (GB): 3.00/79.10"
//   nemo-rl     "GPU Memory after optimizer offload: 1.20GB allocated, 2.00GB reserved"
//   unsloth     "12.34 GB of memory reserved."
//
// Each says its own unit here: the same two letters mean 2^30 bytes in one tool and 10^9 in the next.
#include <array>

#include "evidence/log_line_readers.h"
#include "evidence/printed.h"

namespace steelyard {
namespace {

using Field = std::optional<Bytes> MemoryReading::*;

struct MemoryLabel {
  std::string_view source;
  std::string_view words;  // the line holds these
  std::string_view label;  // the number stands behind this, or before it
  double unit;
  Field field;
  bool before = false;
};

// torchtune prints GiB of 2^30 bytes, and printed GB of 10^9 before 0.5.
constexpr double kAsPrinted = 0.0;

constexpr std::array<MemoryLabel, 23> kMemoryLabels = {
    {{"torchtune", "GPU peak memory active: ", "memory active: ", kAsPrinted,
      &MemoryReading::max_allocated},
     {"torchtune", "GPU peak memory alloc: ", "memory alloc: ", kAsPrinted,
      &MemoryReading::max_allocated},
     {"torchtune", "GPU peak memory allocation: ", "memory allocation: ", kAsPrinted,
      &MemoryReading::max_allocated},
     {"torchtune", "GPU peak memory reserved: ", "memory reserved: ", kAsPrinted,
      &MemoryReading::max_reserved},
     {"torchtune", "peak_memory_active:", "peak_memory_active:", kGibibyte,
      &MemoryReading::max_allocated},
     {"torchtune", "peak_memory_alloc:", "peak_memory_alloc:", kGibibyte,
      &MemoryReading::max_allocated},
     {"torchtune", "peak_memory_reserved:", "peak_memory_reserved:", kGibibyte,
      &MemoryReading::max_reserved},
     {"nanotron", "Peak allocated", "Memory usage: ", kMebibyte, &MemoryReading::allocated},
     {"nanotron", "Peak allocated", "Peak allocated", kMebibyte, &MemoryReading::max_allocated},
     {"nanotron", "Peak reserved: ", "Peak reserved: ", kMebibyte, &MemoryReading::max_reserved},
     {"litgpt", "Memory used: ", "Memory used: ", kGigabyte, &MemoryReading::max_allocated},
     {"litgpt", "Memory Used", "Memory Used          : ", kGigabyte, &MemoryReading::max_allocated},
     {"verl", "memory allocated (GB): ", "memory allocated (GB): ", kGibibyte,
      &MemoryReading::allocated},
     {"verl", "memory reserved (GB): ", "memory reserved (GB): ", kGibibyte,
      &MemoryReading::reserved},
     {"verl", "device memory used/total (GB): ", "used/total (GB): ", kGibibyte,
      &MemoryReading::device_used},
     {"verl", "perf/max_memory_allocated_gb", "perf/max_memory_allocated_gb:", kGibibyte,
      &MemoryReading::max_allocated},
     {"verl", "perf/max_memory_reserved_gb", "perf/max_memory_reserved_gb:", kGibibyte,
      &MemoryReading::max_reserved},
     {"verl", "perf/cpu_memory_used_gb", "perf/cpu_memory_used_gb:", kGibibyte,
      &MemoryReading::host_used},
     {"nemo-rl", "GPU Memory ", "GB allocated", kGibibyte, &MemoryReading::allocated, true},
     {"nemo-rl", "GPU Memory ", "GB reserved", kGibibyte, &MemoryReading::reserved, true},
     {"unsloth", "GB of memory reserved", " GB of memory reserved", kGibibyte,
      &MemoryReading::reserved, true},
     {"unsloth", "Peak reserved memory = ", "Peak reserved memory = ", kGibibyte,
      &MemoryReading::max_reserved},
     {"unsloth", "Max memory = ", "Max memory = ", kGibibyte, &MemoryReading::device_total}}};

constexpr std::array<std::string_view, 24> kMemoryLabelWords = [] {
  std::array<std::string_view, 24> words;
  for (std::size_t i = 0; i < kMemoryLabels.size(); ++i) words[i] = kMemoryLabels[i].words;
  words[23] = "on_train_batch_end rank: ";
  return words;
}();

// "1.20GB allocated": the number ends where the label begins.
std::optional<double> number_before(std::string_view text, std::string_view label) {
  const std::size_t end = text.find(label);
  if (end == std::string_view::npos) return std::nullopt;
  std::size_t begin = end;
  while (begin > 0 && (is_printed_digit(text[begin - 1]) || text[begin - 1] == '.')) --begin;
  std::string_view rest = text.substr(begin, end - begin);
  return take_printed_number(rest);
}

// "after init" of "After init, memory allocated (GB): 1.2": what stands before the first label
std::string moment_of(std::string_view text, std::string_view label) {
  const std::string_view before = without_spaces(text.substr(0, text.find(label)));
  std::string_view moment = before;
  while (moment.ends_with(',') || moment.ends_with(':')) moment.remove_suffix(1);
  return moment.size() <= 100 ? std::string(moment) : std::string();
}

// Blocks of several lines, as torchtune's, are one reading: the same source without that field, a few lines above.
MemoryReading* open_reading_of(std::string_view source, Field field, const LogLine& line,
                               LogState& state) {
  auto& readings = state.evidence.readings;
  if (readings.empty() || readings.back().source != source || (readings.back().*field).has_value())
    return nullptr;
  const std::int64_t before = integer_behind(readings.back().place.at, "line ").value_or(0);
  return line.number - before <= 3 ? &readings.back() : nullptr;
}

bool read_labelled_line(const LogLine& line, LogState& state, bool called) {
  if (!called) return false;
  const std::string_view text = line.text;
  for (const MemoryLabel& row : kMemoryLabels) {
    if (text.find(row.words) == std::string_view::npos) continue;
    const auto number =
        row.before ? number_before(text, row.label) : number_behind(text, row.label);
    double unit = row.unit;
    if (unit == kAsPrinted)
      unit = behind(text, row.label)->substr(0, 24).find("GiB") != std::string_view::npos
                 ? kGibibyte
                 : kGigabyte;
    const auto size = number ? printed_bytes(*number, unit) : std::nullopt;
    if (!size) continue;
    if (MemoryReading* open = open_reading_of(row.source, row.field, line, state)) {
      open->*row.field = size;
      if (auto slash = behind(text, "/"); row.field == &MemoryReading::device_used && slash) {
        if (const auto total = behind(*behind(text, row.label), "/"))
          if (auto rest = *total; const auto all = take_printed_number(rest))
            open->device_total = printed_bytes(*all, row.unit);
      }
      continue;
    }
    MemoryReading reading;
    reading.source = std::string(row.source);
    reading.label = moment_of(text, row.words);
    reading.step = state.step;
    reading.*row.field = size;
    if (row.source != "unsloth") state.add_framework(row.source);
    state.add(std::move(reading), line);
  }
  // NeMo: "on_train_batch_end rank: 0 mem: 12.34 / 15.00": allocated and the most reserved, divided by 1024 three times
  if (auto rest = behind(text, "on_train_batch_end rank: ")) {
    MemoryReading reading;
    reading.source = "nemo";
    reading.rank = take_printed_integer(*rest);
    reading.label = "step";
    reading.step = state.step;
    if (auto mem = behind(*rest, "mem: ")) {
      const auto allocated = take_printed_number(*mem);
      const auto slash = behind(*mem, "/ ");
      if (allocated) reading.allocated = printed_bytes(*allocated, kGibibyte);
      if (slash)
        if (auto second = *slash; const auto reserved = take_printed_number(second))
          reading.max_reserved = printed_bytes(*reserved, kGibibyte);
    }
    if (reading.allocated) state.add(std::move(reading), line);
  }
  return false;
}

}  // namespace

const LogLineReader kLabelledMemoryLines{"labelled memory", kMemoryLabelWords, read_labelled_line};

}  // namespace steelyard
