// The Trainer of transformers and what is built on it: Axolotl, LLaMA-Factory.
//
//   {'loss': 1.2345, 'grad_norm': 0.71, 'learning_rate': 9.5e-06, 'epoch': 0.02}
//   {'loss': 1.1, 'memory/max_allocated (GiB)': 61.2, 'memory/device_reserved (GiB)': 70.1, 'epoch': 0.1}       Axolotl
//   {"current_steps": 5, "total_steps": 100, "loss": 1.1, "vram_allocated": 61.2, "vram_reserved": 70.1}         LLaMA-Factory
//     train_mem_gpu_alloc_delta    =     1234MB          of skip_memory_metrics=False: device 0 alone, cut to whole MB of 2^20
//     5%|▌         | 5/100 [00:10<03:10,  2.00s/it]
#include <array>

#include "evidence/log_line_readers.h"
#include "evidence/printed.h"

namespace steelyard {
namespace {

constexpr std::array<std::string_view, 10> kTrainerWords = {
    "'loss': ",      "\"loss\": ", "_mem_gpu_", "memory/max_", "vram_allocated",
    "train_runtime", "s/it]",      "it/s]",     "s/it,",       "it/s,"};

constexpr std::string_view kTrainer = "transformers";

std::optional<double> value_of(std::string_view text, std::string_view key) {
  for (const char quote : {'\'', '"'}) {
    const std::string label = quote + std::string(key) + quote + ": ";
    auto rest = behind(text, label);
    if (!rest) continue;
    if (rest->starts_with('\'') || rest->starts_with('"')) rest->remove_prefix(1);
    return take_printed_number(*rest);
  }
  return std::nullopt;
}

std::optional<Bytes> gibibytes_of(std::string_view text, std::string_view key) {
  const auto number = value_of(text, key);
  return number ? printed_bytes(*number, kGibibyte) : std::nullopt;
}

// " 5/100 [00:10<03:10,  2.00s/it]": the bar counts optimizer steps, unless it loads shards or tokenizes.
void read_bar(std::string_view text, const LogLine& line, LogState& state) {
  for (const std::string_view other : {"Loading", "Map", "shards", "Download", "examples/s",
                                       "Fetching", "Tokeniz", "Evaluat", "Filter", "Generat"})
    if (text.find(other) != std::string_view::npos) return;
  const std::size_t bracket = text.rfind(" [");
  if (bracket == std::string_view::npos) return;
  std::size_t begin = bracket;
  while (begin > 0 && (is_printed_digit(text[begin - 1]) || text[begin - 1] == '/')) --begin;
  std::string_view rest = text.substr(begin, bracket - begin);
  const auto done = take_printed_integer(rest);
  if (!done || !rest.starts_with('/')) return;
  // A bar is drawn again and again: only where it has moved is there a step.
  if (*done > 0 && (!state.step || *done > *state.step)) state.at_step(*done, line);
}

void read_values(std::string_view text, const LogLine& line, LogState& state) {
  MemoryReading reading;
  reading.source = std::string(kTrainer);
  if (const auto step = value_of(text, "current_steps")) {
    reading.step = static_cast<std::int64_t>(*step);
    reading.source = "llama-factory";
    state.at_step(*reading.step, line);
  }
  reading.max_allocated = gibibytes_of(text, "memory/max_allocated (GiB)");
  if (!reading.max_allocated)
    reading.max_allocated = gibibytes_of(text, "memory/max_mem_allocated(gib)");
  if (!reading.max_allocated) reading.max_allocated = gibibytes_of(text, "memory/max_active (GiB)");
  if (!reading.max_allocated)
    reading.max_allocated = gibibytes_of(text, "memory/max_mem_active(gib)");
  reading.reserved = gibibytes_of(text, "memory/device_reserved (GiB)");
  if (!reading.reserved) reading.reserved = gibibytes_of(text, "memory/device_mem_reserved(gib)");
  if (reading.max_allocated || reading.reserved) reading.source = "axolotl";
  if (const auto allocated = gibibytes_of(text, "vram_allocated")) {
    reading.max_allocated = allocated;
    reading.reserved = gibibytes_of(text, "vram_reserved");
    reading.source = "llama-factory";
  }
  if (value_of(text, "train_runtime")) state.evidence.finished = true;
  state.add_framework(kTrainer);
  reading.label = "step";
  if (!reading.step) reading.step = state.step;
  state.add(std::move(reading), line);
}

// "  train_mem_gpu_alloc_delta    =     1234MB": whole MB, cut. The peak of a stage is its delta and the peak above it.
void read_stage(std::string_view text, const LogLine& line, LogState& state) {
  const std::size_t at = text.find("_mem_gpu_");
  const std::size_t equals = text.find('=', at);
  if (equals == std::string_view::npos) return;
  std::string_view rest = text.substr(equals + 1);
  const auto size = take_printed_size(rest);
  if (!size) return;
  const std::string stage(without_spaces(text.substr(0, at)));
  const std::string_view name = text.substr(at);
  auto& readings = state.evidence.readings;
  const bool goes_on =
      !readings.empty() && readings.back().source == kTrainer && readings.back().label == stage;
  if (name.starts_with("_mem_gpu_alloc_delta")) {
    MemoryReading reading;
    reading.source = std::string(kTrainer);
    reading.label = stage;
    reading.device = 0;
    reading.allocated = size;
    state.add(std::move(reading), line);
  } else if (name.starts_with("_mem_gpu_peaked_delta") && goes_on) {
    readings.back().max_allocated = readings.back().allocated.value_or(Bytes(0)) + *size;
  }
}

bool read_trainer_line(const LogLine& line, LogState& state, bool called) {
  if (!called) return false;
  const std::string_view text = line.text;
  const bool is_values = text.find('{') != std::string_view::npos &&
                         (value_of(text, "loss") || value_of(text, "train_runtime"));
  if (text.find("_mem_gpu_") != std::string_view::npos) read_stage(text, line, state);
  if (text.find("s/it") != std::string_view::npos || text.find("it/s") != std::string_view::npos)
    read_bar(text, line, state);
  if (is_values) read_values(text, line, state);
  return false;
}

}  // namespace

const LogLineReader kTrainerLines{"trainer", kTrainerWords, read_trainer_line};

}  // namespace steelyard
