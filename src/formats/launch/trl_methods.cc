// trl 1.16 trainer/{dpo,kto,grpo}_config.py, experimental/cpo/cpo_config.py.
//
//   trl dpo --precompute_ref_log_probs           reference = "precomputed"
//   loss_type: simpo, cpo_alpha: 0               likelihood_of_chosen = false
//   beta: 0.04, use_vllm: true, vllm_mode: colocate, max_completion_length: 1024
//                                                reference = "model", generation.engine = "vllm", its share of the device
#include "formats/launch/trl_methods.h"

#include "formats/launch/hugging_face.h"

namespace steelyard {
namespace {

void read_reference(ConfigReader& reading) {
  if (const Value* before = reading.on("precompute_ref_log_probs"))
    reading.say("training.reference", "precomputed", *before);
  else if (const Value* second = reading.on("force_use_ref_model"))
    reading.say("training.reference", "model", *second);
}

void read_likelihood(ConfigReader& reading) {
  const Value* weight = reading.take("cpo_alpha");
  const Value* loss = reading.take("loss_type");
  const bool none = weight != nullptr && weight->is_number() && weight->as_number() == 0;
  if (loss != nullptr && word_of(*loss) == "alphapo")
    reading.say("training.likelihood_of_chosen", Value::boolean(false), *loss);
  else if (weight != nullptr)
    reading.say("training.likelihood_of_chosen", Value::boolean(!none), *weight);
}

void read_vllm(ConfigReader& reading, const Value& at) {
  const Value* mode = reading.take("vllm_mode");
  const Value* share = reading.take("vllm_gpu_memory_utilization");
  const Value* sleep = reading.take("vllm_enable_sleep_mode");
  if (mode != nullptr && word_of(*mode) == "server")
    return reading.say("generation.engine", "elsewhere", *mode);
  // TRL before 0.16 gave it a device of its own, which no process trains on.
  if (const Value* device = reading.take("vllm_device"))
    return reading.say("generation.engine", "elsewhere", *device);
  reading.say("generation.engine", "vllm", at);
  if (mode == nullptr)
    reading.warn(at, "use_vllm without vllm_mode",
                 "TRL 1.16 then runs vLLM on the same devices (colocate), and before 1.0 on others",
                 "generation.engine = \"elsewhere\" weighs the latter");
  if (share != nullptr) reading.say("generation.memory_fraction", *share, *share);
  if (sleep != nullptr && truth_of(*sleep))
    reading.say("generation.sleep", Value::boolean(*truth_of(*sleep)), *sleep);
}

// A sequence is a prompt and its completion. Of prompts TRL 1.16 knows no longest one; before, it was 512.
void read_lengths(ConfigReader& reading) {
  const Value* completion = reading.take("max_completion_length");
  const Value* prompt = reading.take("max_prompt_length");
  const std::int64_t of_completion =
      completion == nullptr ? 512 : count_of(*completion).value_or(0);
  if (prompt == nullptr || !count_of(*prompt))
    return reading.lacks("training.sequence_length",
                         "the longest prompt, which the data decide, and max_completion_length");
  const std::int64_t of_prompt = *count_of(*prompt);
  if (of_completion < 1 || of_prompt < 1 || of_completion > 1'000'000'000 ||
      of_prompt > 1'000'000'000)
    return reading.lacks("training.sequence_length", "max_completion_length decides");
  reading.say("training.sequence_length", Value::integer(of_prompt + of_completion),
              completion != nullptr ? *completion : *prompt);
  reading.say("training.prompt_length", Value::integer(of_prompt), *prompt);
}

void read_generation(ConfigReader& reading) {
  const Value* beta = reading.take("beta");
  if (beta != nullptr && beta->is_number() && beta->as_number() > 0)
    reading.say("training.reference", reading.on("use_peft") != nullptr ? "adapter" : "model",
                *beta);
  if (const Value* vllm = reading.on("use_vllm"))
    read_vllm(reading, *vllm);
  else
    reading.take_default("generation.engine", Value::string("transformers"),
                         "TRL generates with the model's own code unless use_vllm says otherwise");
  read_lengths(reading);
}

}  // namespace

void read_trl_method(ConfigReader& reading) {
  const Value* said = reading.said("training.method");
  if (said == nullptr) return;
  const std::string method = word_of(*said);
  if (method == "dpo" || method == "kto") read_reference(reading);
  if (method == "cpo") read_likelihood(reading);
  if (method == "grpo") read_generation(reading);
}

}  // namespace steelyard
