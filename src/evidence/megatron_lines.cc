// Megatron-LM, its forks and Megatron-Bridge: training lines and reports of memory.
//
//   iteration       20/    1000 | ... | elapsed time per iteration (ms): 1382.4 | ... number of skipped iterations: 0 |
//   [Rank 7] (after 20 iterations) memory (MB) | allocated: 21633.08 | max allocated: 24432.0 | reserved: 29316.0 | ...
//   [Rank 0] (after 2 iterations) memory (GB) | mem-allocated-gigabytes: 12.305 | ...          Bridge's: 10^9 bytes
//   Theoretical memory footprints: weight and optimizer=1024.00 MB, activation=512.00 MB, total=1536.00 MB
//
// MB are 2^20 bytes. Records of several ranks may stand in one line without an end between them. Peaks are since the start.
#include <array>

#include "evidence/log_line_readers.h"
#include "evidence/printed.h"

namespace steelyard {
namespace {

constexpr std::array<std::string_view, 8> kMegatronWords = {"memory (MB) |",
                                                            "memory (GB) |",
                                                            " iteration ",
                                                            "iteration=",
                                                            "elapsed_time_per_iteration_ms=",
                                                            "Theoretical memory footprints",
                                                            "using world size: ",
                                                            "elapsed time per iteration"};

std::optional<Bytes> labelled(std::string_view record, std::string_view label, double unit) {
  return size_behind(record, label, unit);
}

void read_memory_record(std::string_view record, bool bridge, const LogLine& line,
                        LogState& state) {
  MemoryReading reading;
  reading.source = "megatron";
  if (auto rank = behind(record, "[Rank ")) reading.rank = take_printed_integer(*rank);
  if (auto rank = behind(record, "[rank ")) reading.rank = take_printed_integer(*rank);
  reading.step = integer_behind(record, "(after ");
  if (bridge) {
    reading.source = "megatron-bridge";
    reading.allocated = labelled(record, "mem-allocated-gigabytes: ", kGigabyte);
    reading.max_allocated = labelled(record, "mem-max-allocated-gigabytes: ", kGigabyte);
    reading.reserved = labelled(record, "mem-reserved-gigabytes: ", kGigabyte);
    reading.max_reserved = labelled(record, "mem-max-reserved-gigabytes: ", kGigabyte);
    reading.retries = integer_behind(record, "mem-alloc-retires: ");
    if (!reading.retries) reading.retries = integer_behind(record, "mem-alloc-retries: ");
  } else {
    reading.allocated = labelled(record, "| allocated: ", kMebibyte);
    reading.max_allocated = labelled(record, "| max allocated: ", kMebibyte);
    reading.reserved = labelled(record, "| reserved: ", kMebibyte);
    reading.max_reserved = labelled(record, "| max reserved: ", kMebibyte);
    reading.device_used = labelled(record, "total device memory used: ", kMebibyte);
  }
  if (!reading.allocated && !reading.max_allocated) return;
  reading.label = "after step";
  state.add(std::move(reading), line);
}

void read_memory_records(std::string_view text, const LogLine& line, LogState& state) {
  for (const std::string_view mark : {"memory (MB) |", "memory (GB) |"}) {
    std::size_t at = text.find(mark);
    while (at != std::string_view::npos) {
      // Its rank stands before it; the next record begins with one, too.
      const std::size_t begin = text.substr(0, at).rfind('[');
      const std::size_t next = text.find(mark, at + mark.size());
      std::size_t end =
          next == std::string_view::npos ? text.size() : text.substr(0, next).rfind('[');
      if (end == std::string_view::npos || end <= at) end = next;
      const std::size_t from = begin == std::string_view::npos ? at : begin;
      read_memory_record(text.substr(from, end - from), mark == "memory (GB) |", line, state);
      at = next;
    }
  }
}

// The labels of a training line, which differ by version and fork, never its columns.
void read_training_line(std::string_view text, const LogLine& line, LogState& state) {
  auto number = behind_word(text, "iteration ");
  if (!number) number = behind_word(text, "iteration=");
  const auto step = number ? take_printed_integer(*number) : std::nullopt;
  if (!step || *step < 0) return;
  while (number->starts_with(' ')) number->remove_prefix(1);
  const bool of_all = number->starts_with('/');
  std::optional<double> seconds;
  if (const auto ms = number_behind(text, "elapsed time per iteration (ms): "))
    seconds = *ms / 1000.0;
  if (!seconds) seconds = number_behind(text, "elapsed time per iteration (s): ");
  if (const auto ms = number_behind(text, "elapsed_time_per_iteration_ms=")) seconds = *ms / 1000.0;
  if (!of_all || (!seconds && text.find(" | ") == std::string_view::npos)) return;
  state.add_framework(text.find("consumed samples") != std::string_view::npos || seconds
                          ? "megatron-lm"
                          : "megatron");
  state.at_step(*step, line);
  MemoryReading reading;
  reading.source = "megatron";
  reading.step = step;
  reading.step_seconds = seconds;
  reading.label = "step";
  state.add(std::move(reading), line);
}

bool read_megatron_line(const LogLine& line, LogState& state, bool called) {
  if (!called) return false;
  const std::string_view text = line.text;
  if (text.find("iteration") != std::string_view::npos &&
      text.find("memory (") == std::string_view::npos)
    read_training_line(text, line, state);
  read_memory_records(text, line, state);
  if (text.find("Theoretical memory footprints") != std::string_view::npos) {
    MemoryReading reading;
    reading.source = "megatron";
    reading.label = "theoretical memory";
    reading.phase = "prediction";
    reading.allocated = size_behind(text, "total=", kMebibyte);
    state.add(std::move(reading), line);
  }
  if (const auto size = integer_behind(text, "using world size: ")) {
    state.add_framework("megatron-lm");
    if (state.steps_of_start > 0) state.begin_start();
    state.evidence.clues.world_size = size;
    for (const std::string_view key :
         {"data-parallel-size: ", "data-parallel size: ", "tensor-model-parallel size: ",
          "pipeline-model-parallel size: "})
      if (const auto value = integer_behind(text, key))
        state.evidence.clues.arguments[std::string(key.substr(0, key.size() - 2))] =
            std::to_string(*value);
  }
  return false;
}

}  // namespace

const LogLineReader kMegatronLines{"megatron", kMegatronWords, read_megatron_line};

}  // namespace steelyard
