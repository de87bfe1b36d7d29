// torchtitan: training lines with memory, and what it says of the device first.
//
//   step: 10  loss:  7.1234  grad_norm: 1.23  memory: 39.12GiB(49.25%)  tps: 6,234  tflops: 361.10  mfu: 36.51%
//   CUDA capacity: NVIDIA H100 80GB HBM3 with 79.10GiB memory
//   CUDA memory usage for model: 3.12GiB(3.94%)
//   1 CUDA memory allocation retries. · 1 CUDA OOM errors thrown.
//
// "memory" is the largest reserved memory since the line before it; GiB are 2^30 bytes. Colours stand between the words.
#include <array>

#include "evidence/log_line_readers.h"
#include "evidence/printed.h"

namespace steelyard {
namespace {

constexpr std::array<std::string_view, 7> kTorchtitanWords = {"step: ",
                                                              " capacity: ",
                                                              "memory usage for model: ",
                                                              "memory allocation retries",
                                                              "OOM errors thrown",
                                                              "memory/max_reserved(GiB)",
                                                              "Starting job: "};

constexpr std::string_view kTorchtitan = "torchtitan";

void read_step(std::string_view text, const LogLine& line, LogState& state) {
  MemoryReading reading;
  reading.source = std::string(kTorchtitan);
  reading.step = integer_behind(text, "step: ");
  auto memory = behind(text, "memory: ");
  if (!reading.step || !memory) return;
  reading.max_reserved = take_printed_size(*memory);
  if (!reading.max_reserved) return;
  reading.label = "step";
  reading.peak_is_since_last = true;
  state.add_framework(kTorchtitan);
  state.at_step(*reading.step, line);
  state.add(std::move(reading), line);
}

// The count stands before the words.
std::optional<std::int64_t> count_before(std::string_view text, std::string_view words) {
  const std::size_t at = text.find(words);
  if (at == std::string_view::npos) return std::nullopt;
  std::size_t begin = at;
  while (begin > 0 && is_printed_digit(text[begin - 1])) --begin;
  std::string_view number = text.substr(begin, at - begin);
  return take_printed_integer(number);
}

void read_device(std::string_view text, const LogLine& line, LogState& state) {
  const auto with = behind(text, " with ");
  if (!with) return;
  std::string_view rest = *with;
  const auto capacity = take_printed_size(rest);
  if (!capacity || !rest.starts_with(" memory")) return;
  MemoryReading reading;
  reading.source = std::string(kTorchtitan);
  reading.device_total = capacity;
  reading.label = "capacity";
  state.add_framework(kTorchtitan);
  state.add(std::move(reading), line);
}

bool read_torchtitan_line(const LogLine& line, LogState& state, bool called) {
  if (!called) return false;
  const std::string_view text = line.text;
  read_step(text, line, state);
  if (text.find(" capacity: ") != std::string_view::npos) read_device(text, line, state);
  if (const auto size = size_behind(text, "memory usage for model: ")) {
    MemoryReading reading;
    reading.source = std::string(kTorchtitan);
    reading.allocated = size;
    reading.label = "model";
    state.add_framework(kTorchtitan);
    state.add(std::move(reading), line);
  }
  const auto retries = count_before(text, " CUDA memory allocation retries");
  const auto ooms = count_before(text, " CUDA OOM errors thrown");
  if (retries || ooms) {
    MemoryReading reading;
    reading.source = std::string(kTorchtitan);
    reading.retries = retries;
    reading.ooms = ooms;
    reading.label = "retries";
    reading.step = state.step;
    state.add(std::move(reading), line);
  }
  if (const auto active = number_behind(text, "memory/max_reserved(GiB)\": ")) {
    MemoryReading reading;
    reading.source = std::string(kTorchtitan);
    reading.max_reserved = printed_bytes(*active, kGibibyte);
    reading.max_allocated = size_behind(text, "memory/max_active(GiB)\": ", kGibibyte);
    reading.retries = integer_behind(text, "memory/num_alloc_retries\": ");
    reading.ooms = integer_behind(text, "memory/num_ooms\": ");
    reading.step = integer_behind(text, "\"step\": ");
    reading.label = "step";
    reading.peak_is_since_last = true;
    state.add(std::move(reading), line);
  }
  return false;
}

}  // namespace

const LogLineReader kTorchtitanLines{"torchtitan", kTorchtitanWords, read_torchtitan_line};

}  // namespace steelyard
