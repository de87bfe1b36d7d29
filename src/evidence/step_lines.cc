// Training lines of programs that have a format of their own: a step's number, and its time where they print it.
//
//   Step: 150 | Loss: 7.04 | Tokens per second: 39433.29 | ...
//   Step    0 | Loss: 11.08 | Time: 1.626s | ...
//   Epoch: 1 | iter: 20 step: 5 | loss train: 2.1, val: n/a | iter time: 812.20 ms (step)            litgpt
//   [2026-05-26 04:37:42,042] [INFO] [logging.py:96:log_dist] [Rank 0] step=160, skipped=6, lr=[...]  DeepSpeed
//   iteration: 5 / 100 | consumed_tokens: 5.24M | time_per_iteration_ms: 812 | ...                   nanotron
//   step 3/1000 | loss 2.1 | lr 1e-4 | allocated 0.85 GiB, peak 1.67 GiB                             a loop of the user's own
#include <array>

#include "evidence/log_line_readers.h"
#include "evidence/printed.h"

namespace steelyard {
namespace {

constexpr std::array<std::string_view, 9> kStepWords = {
    "Step: ",          "Step ",       "step: ",      "step ",
    "step=",           "iteration: ", "global_step", "Training complete",
    "raining finished"};

// A training line says more than a number.
bool is_training(std::string_view text) {
  for (const std::string_view word : {"loss", "Loss", "tokens", "Tokens", "skipped=", "lr=", "lr:",
                                      "iter time", "time_per_iteration", "MFU", "mfu"})
    if (text.find(word) != std::string_view::npos) return true;
  return false;
}

std::optional<double> seconds_of_step(std::string_view text) {
  for (const std::string_view label : {"Time: ", "step_time: ", "Step Time : ", "step time: "}) {
    auto rest = behind(text, label);
    if (!rest) continue;
    const auto number = take_printed_number(*rest);
    if (number)
      return rest->starts_with("ms") || rest->starts_with(" ms") ? *number / 1000.0 : *number;
  }
  for (const std::string_view label : {"iter time: ", "time_per_iteration_ms: "})
    if (const auto ms = number_behind(text, label)) return *ms / 1000.0;
  return std::nullopt;
}

// Sizes with their unit, under the words that people's own loops print.
void read_own_memory(std::string_view text, MemoryReading& reading) {
  struct Label {
    std::string_view word;
    std::optional<Bytes> MemoryReading::*field;
  };
  constexpr std::array kLabels = {Label{"allocated", &MemoryReading::allocated},
                                  Label{"peak", &MemoryReading::max_allocated},
                                  Label{"peak memory", &MemoryReading::max_allocated},
                                  Label{"peak_mem", &MemoryReading::max_allocated},
                                  Label{"max_allocated", &MemoryReading::max_allocated},
                                  Label{"max allocated", &MemoryReading::max_allocated},
                                  Label{"max mem", &MemoryReading::max_allocated},
                                  Label{"max_mem", &MemoryReading::max_allocated},
                                  Label{"reserved", &MemoryReading::reserved}};
  for (const Label& label : kLabels) {
    auto rest = behind_word(text, label.word);
    if (!rest) continue;
    const auto at = static_cast<std::size_t>(rest->data() - text.data()) - label.word.size();
    if (text.substr(0, at).ends_with("max ")) continue;
    while (!rest->empty() && (rest->front() == ':' || rest->front() == '=' || rest->front() == ' '))
      rest->remove_prefix(1);
    if (const auto size = take_printed_size(*rest)) reading.*label.field = size;
  }
}

bool read_step_line(const LogLine& line, LogState& state, bool called) {
  if (!called) return false;
  const std::string_view text = line.text;
  if (text.find("Training complete") != std::string_view::npos ||
      text.find("raining finished") != std::string_view::npos) {
    state.evidence.finished = true;
    return false;
  }
  // torchtitan and Megatron have readers of their own.
  if (text.find("memory: ") != std::string_view::npos ||
      text.find("consumed samples") != std::string_view::npos)
    return false;
  if (!is_training(text)) return false;
  for (const std::string_view label :
       {"Step: ", "Step ", " step: ", "step: ", "step=", "step ", "iteration: "}) {
    const auto step = integer_behind(text, label);
    if (!step || *step < 0) continue;
    state.at_step(*step, line);
    if (label == "iteration: ") state.add_framework("nanotron");
    MemoryReading reading;
    reading.source = "log";
    reading.step = step;
    reading.step_seconds = seconds_of_step(text);
    reading.label = "step";
    read_own_memory(text, reading);
    state.add(std::move(reading), line);
    return false;
  }
  return false;
}

}  // namespace

const LogLineReader kStepLines{"step", kStepWords, read_step_line};

}  // namespace steelyard
