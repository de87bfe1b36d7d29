// LLaMA-Factory's v1 YAML (USE_V1=1): src/llamafactory/v1/config/*.py; what it means for memory in core/base_trainer.py,
// core/model_engine.py and plugins/trainer_plugins/distributed/fsdp2.py.
#include <fmt/format.h>

#include "formats/launch/formats.h"
#include "formats/launch/hugging_face.h"
#include "formats/launch/llama_factory.h"

namespace steelyard {
namespace {

constexpr Row kRows[] = {
    {"cutoff_len", "training.sequence_length", "", "", "2048"},
    {"micro_batch_size", "training.micro_batch", "", "", "1"},
    {"global_batch_size", "training.global_batch"},
    {"cp_size", "parallel.context"},
};

constexpr UnweighedKey kUnweighed[] = {
    {"batching_strategy", "micro-batches of other sizes than micro_batch_size says", true},
};

constexpr Row kAdapter[] = {
    {"peft_config.r", "adapter.rank", "", "", "8"},
    {"peft_config.lora_alpha", "adapter.alpha", "", "", "16"},
    {"peft_config.lora_dropout", "adapter.dropout", "", "", "0.05"},
    {"peft_config.modules_to_save", "adapter.saved_modules"},
};

void read_adapter(ConfigReader& reading) {
  const Value* name = reading.take("peft_config.name");
  if (name == nullptr) return;
  if (word_of(*name) == "freeze") return refuse_freezing(reading, *name);
  if (word_of(*name) != "lora")
    return reading.refuse(*name, fmt::format("peft_config {} is not read", word_of(*name)),
                          "lora is");
  const Value* dora = reading.on("peft_config.use_dora");
  reading.say("adapter.method", dora != nullptr ? "dora" : "lora", dora != nullptr ? *dora : *name);
  reading.rows(kAdapter);
  if (reading.theirs().at("peft_config.target_modules") != nullptr)
    read_targets(reading, "peft_config.target_modules", "all");
  else
    reading.take_default("adapter.target_modules", Value::string("all-linear"),
                         "LLaMA-Factory's target_modules is all");
  const Value* quantiser = reading.take("quant_config.name");
  if (quantiser == nullptr) return;
  const Value* bits = reading.take("quant_config.quantization_bit");
  read_quantised_base(reading, bits == nullptr ? "4" : word_of(*bits),
                      bits == nullptr ? *quantiser : *bits, "quant_config.double_quantization");
  reading.take_default("adapter.upcast", Value::boolean(false),
                       "LLaMA-Factory leaves norms and embedding in 16 bits");
}

void read_fsdp(ConfigReader& reading) {
  const Value* reshard = reading.take("dist_config.reshard_after_forward");
  if (reshard != nullptr)
    reading.say("parallel.zero_stage", Value::integer(truth_of(*reshard).value_or(true) ? 3 : 2),
                *reshard);
  else
    reading.take_default("parallel.zero_stage", Value::integer(3),
                         "LLaMA-Factory reshards after forward");
  if (const Value* offload = reading.on("dist_config.offload_params"))
    for (const char* key : {"offload.parameters", "offload.optimizer"})
      reading.say(key, "cpu", *offload);
}

// The trained model is cast to fp32, beside an adapter it stays as it was loaded; only FSDP casts for arithmetic.
void read_precision(ConfigReader& reading, std::string_view engine) {
  const Value* half = reading.take("bf16");
  const bool casts = half == nullptr || truth_of(*half).value_or(true);
  if (reading.has("adapter.method")) {
    if (engine == "fsdp2" && !casts)
      return reading.refuse(*half, "bf16 weights that are gathered in fp32", "it is not weighed",
                            "bf16: true");
    return reading.take_default("training.precision", Value::string("bf16-pure"),
                                "frozen weights stay in the checkpoint's type, taken as bf16");
  }
  if (engine == "fsdp2" && half != nullptr)
    return reading.say("training.precision", casts ? "bf16-mixed" : "fp32", *half);
  reading.take_default(
      "training.precision", Value::string(engine == "fsdp2" ? "bf16-mixed" : "fp32"),
      engine == "fsdp2" ? "LLaMA-Factory's bf16 is true" : "LLaMA-Factory casts the model to fp32");
}

}  // namespace

void read_llama_factory_v1(const Value& document, Launch& launch) {
  ConfigReader reading(document, "llama-factory", launch.into);
  launch.into.formats.emplace_back("LLaMA-Factory v1 YAML");
  if (const Value* model = reading.take("model")) say_model(reading, *model);
  reading.rows(kRows);
  if (!reading.has("training.global_batch"))
    reading.take_default("training.gradient_accumulation", Value::integer(1),
                         "global_batch_size is micro_batch_size x data");
  if (const Value* stage = reading.take("stage"))  // of the command: llamafactory-cli dpo FILE
    reading.say("training.method", word_of(*stage), *stage);
  else
    reading.take_default("training.method", Value::string("sft"), "llamafactory-cli sft");
  const Value* checkpoints = reading.take("enable_activation_checkpointing");
  if (checkpoints != nullptr)
    reading.say("recompute.mode", truth_of(*checkpoints).value_or(true) ? "full" : "none",
                *checkpoints);
  else
    reading.take_default("recompute.mode", Value::string("full"),
                         "LLaMA-Factory checkpoints unless told not to");
  read_clip(reading, "max_grad_norm", true);
  read_attention(reading, "flash_attn");
  if (reading.has("parallel.context"))
    reading.say("parallel.context_method", reading.word("cp_mode").value_or("ulysses"),
                *document.find("cp_size"));
  read_adapter(reading);
  reading.unweighed(kUnweighed);
  const Value* optimizer = reading.take("optim_config.name");
  if (optimizer != nullptr && word_of(*optimizer) != "muon")
    reading.refuse(*optimizer,
                   fmt::format("the optimizer \"{}\" is not known", word_of(*optimizer)),
                   "its states cannot be counted");
  else if (optimizer != nullptr)
    reading.say("training.optimizer", "muon", *optimizer);
  else
    reading.take_default("training.optimizer", Value::string("adamw"), "torch.optim.AdamW");
  if (optimizer == nullptr)
    reading.take_default("training.optimizer_form", Value::string("foreach"), "torch.optim.AdamW");
  if (const Value* kernels = reading.take("kernel_config.name");
      kernels != nullptr && word_of(*kernels).find("liger_kernel") != std::string::npos)
    reading.say("training.kernels", "liger", *kernels);
  // The trainer takes log-probabilities of logits, whatever the kernels.
  reading.take_default("training.loss", Value::string("plain"), "its loss is made of logits");

  const Value* backend = reading.take("dist_config.name");
  const std::string name = backend == nullptr ? "" : word_of(*backend);
  if (name == "deepspeed") {
    read_deepspeed_key(reading, launch, "dist_config.config_file");
    return reading.carry_rest();
  }
  const std::string engine = backend == nullptr ? "ddp" : "fsdp2";
  if (backend == nullptr)
    reading.take_default("engine", Value::string("ddp"), "without dist_config each device has all");
  else
    reading.say("engine", "fsdp2", *backend);
  if (backend != nullptr) read_fsdp(reading);
  if (name == "fsdpturbo") {
    if (const Value* experts = reading.take("dist_config.ep_size"))
      reading.say("parallel.expert", *experts, *experts);
  } else if (backend != nullptr && name != "fsdp2") {
    reading.refuse(*backend, fmt::format("dist_config {} is not known", name),
                   "fsdp2, fsdpturbo and deepspeed are");
  }
  if (const Value* copies = reading.take("mp_replicate_size");
      copies != nullptr && count_of(*copies).value_or(1) > 1)
    reading.say("parallel.replicate", *copies, *copies);
  read_precision(reading, engine);
  reading.carry_rest();
}

}  // namespace steelyard
