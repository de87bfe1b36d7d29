#include "formats/launch/other_files.h"

#include <fmt/format.h>

#include "formats/launch/python_script.h"

namespace steelyard {
namespace {

constexpr std::string_view kWhatStartsIt =
    "give what starts it: the shell or sbatch script, its command line (torchrun, accelerate "
    "launch, "
    "deepspeed, trl), or the configuration file; `steelyard import` says what it reads there";
constexpr std::string_view kTheRun =
    "`steelyard weigh RUN` predicts the run that it is about: give its launch file, run file or "
    "model";

Diagnostic problem(std::string_view name, std::string_view what, std::string_view help) {
  Diagnostic result;
  result.code = "E617";
  result.message = fmt::format("{} is {}", name, what);
  result.help = std::string(help);
  return result;
}

bool has(std::string_view text, std::string_view word) {
  return text.find(word) != std::string_view::npos;
}

}  // namespace

std::optional<Diagnostic> other_kind_of_file(std::string_view text, std::string_view name) {
  // A pickle of protocol 2 to 5 says so in its first two bytes.
  if (text.size() > 1 && text[0] == '\x80' && text[1] >= 2 && text[1] <= 5)
    return problem(
        name, "a pickle: a memory snapshot of PyTorch, or a checkpoint, which no command reads",
        kTheRun);
  if (text.starts_with("PK\x03\x04"))
    return problem(name, "a zip file, as torch.save writes checkpoints, and no configuration",
                   kTheRun);
  if (name.ends_with(".safetensors"))
    return problem(name, "a checkpoint",
                   "`steelyard compare MODEL FILE` compares its tensors with a model's");
  if (is_python_file(name) && is_training_script(text, name)) return std::nullopt;
  if (name.ends_with(".ipynb") || (has(text, "\"nbformat\"") && has(text, "\"cells\"")))
    return problem(name, "a notebook, which is not run here, and calls no trainer that is known",
                   kWhatStartsIt);
  if (name.ends_with(".py"))
    return problem(name,
                   "a Python script, which is not run here, and calls no trainer that is known",
                   kWhatStartsIt);
  const bool is_configuration = name.ends_with(".sh") || name.ends_with(".toml") ||
                                name.ends_with(".yaml") || name.ends_with(".yml") ||
                                name.ends_with(".json") || name.ends_with(".sbatch") ||
                                name.ends_with(".slurm");
  if (!is_configuration &&
      (has(text, "CUDA out of memory") || has(text, "HIP out of memory") ||
       has(text, "torch.OutOfMemoryError") || has(text, "torch.cuda.OutOfMemoryError")))
    return problem(name, "a log of a run that ran out of memory, which no command reads", kTheRun);
  return std::nullopt;
}

}  // namespace steelyard
