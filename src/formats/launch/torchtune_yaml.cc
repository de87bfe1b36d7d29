// torchtune's YAML (read, not written: the project is archived). torchtune/config, recipes/configs.
#include <fmt/format.h>

#include "formats/launch/formats.h"
#include "formats/launch/hugging_face.h"

namespace steelyard {
namespace {

constexpr Row kRows[] = {
    {"tokenizer.max_seq_len", "training.sequence_length"},
    {"batch_size", "training.micro_batch"},
    {"gradient_accumulation_steps", "training.gradient_accumulation", "", "", "1"},
    {"dtype", "training.precision", "bf16=bf16-pure|fp32=fp32"},
    {"enable_activation_checkpointing", "recompute.mode", "true=full|false=none", "", "none"},
    {"enable_activation_offloading", "offload.activations", "true=cpu|false=none"},
    {"optimizer_in_bwd", "training.optimizer_in_backward"},
    {"data_parallel_replicate_dim", "parallel.replicate"},
    {"tensor_parallel_dim", "parallel.tensor"},
    {"context_parallel_dim", "parallel.context"},
};

constexpr std::string_view kOptimizers =
    "torch.optim.AdamW=adamw|torch.optim.Adam=adam|torch.optim.SGD=sgd|"
    "bitsandbytes.optim.AdamW8bit=adamw-8bit|bitsandbytes.optim.PagedAdamW8bit=adamw-paged-8bit|"
    "bitsandbytes.optim.PagedAdamW=adamw-paged|torchao.optim.AdamW8bit=adamw-8bit|"
    "torchao.optim.CPUOffloadOptimizer=";

// torchtune.models.llama3_1.lora_llama3_1_70b: the builder's name says which sizes.
constexpr std::string_view kBuilders =
    "llama3_1_8b=llama-3.1-8b|llama3_1_70b=llama-3.1-70b|llama3_1_405b=llama-3.1-405b|"
    "llama3_2_1b=llama-3.2-1b|llama3_2_3b=llama-3.2-3b|llama3_3_70b=llama-3.3-70b|"
    "llama3_8b=llama-3-8b|llama3_70b=llama-3-70b|llama2_7b=llama-2-7b|llama2_13b=llama-2-13b|"
    "llama2_70b=llama-2-70b|mistral_7b=mistral-7b-v0.1|qwen2_0_5b=qwen2-0.5b|qwen2_1_5b=qwen2-1.5b|"
    "qwen2_7b=qwen2-7b|qwen2_5_0_5b=qwen2.5-0.5b|qwen2_5_1_5b=qwen2."
    "5-1.5b|"
    "qwen2_5_3b=qwen2.5-3b|qwen2_5_7b=qwen2.5-7b|qwen2_5_14b=qwen2.5-"
    "14b|"
    "qwen2_5_32b=qwen2.5-32b|qwen2_5_72b=qwen2.5-72b|gemma_2b=gemma-2b|gemma_7b=gemma-7b|"
    "gemma2_2b=gemma-2-2b|gemma2_9b=gemma-2-9b|gemma2_27b=gemma-2-27b|phi3_mini=phi-3-mini-4k|"
    "phi4_14b=phi-4|qwen3_0_6b=qwen3-0.6b|qwen3_1_7b=qwen3-1.7b|qwen3_4b=qwen3-4b|qwen3_8b=qwen3-"
    "8b|"
    "qwen3_14b=qwen3-14b|qwen3_32b=qwen3-32b|llama4_scout_17b_16e=llama-4-scout-17b-16e|"
    "llama4_maverick_17b_128e=llama-4-maverick-17b-128e";

// Dense layers with norms before them, whole or divided over data ranks, with LoRA or without adapters.
bool is_weighed_as_own(const Value& run) {
  const auto says = [&](std::string_view path, std::string_view value) {
    const Value* said = run.at(path);
    return said != nullptr && said->is_string() && said->as_string().starts_with(value);
  };
  const auto divides = [&](std::string_view path) {
    const Value* said = run.at(path);
    return said != nullptr && count_of(*said).value_or(1) > 1;
  };
  return !says("model", "gemma-2-") && !says("model", "llama-4") &&
         !says("adapter.method", "dora") && !divides("parallel.tensor") &&
         !divides("parallel.context");
}

void read_model(ConfigReader& reading) {
  const Value* component = reading.take("model._component_");
  if (component == nullptr) return reading.lacks("model", "no model._component_");
  std::string name = word_of(*component);
  name.erase(0, name.rfind('.') == std::string::npos ? 0 : name.rfind('.') + 1);
  bool adapter = false;
  bool quantised = false;
  for (const std::string_view prefix : {"qlora_", "lora_", "dora_"})
    if (name.starts_with(prefix)) {
      adapter = true;
      quantised = prefix == "qlora_";
      name.erase(0, prefix.size());
      break;
    }
  // Sizes of the base model and of what was made of it are one.
  for (const std::string_view suffix : {"_instruct", "_base"})
    if (name.ends_with(suffix)) name.resize(name.size() - suffix.size());
  if (const auto preset = ours_of(kBuilders, name))
    reading.say("model", *preset, *component);
  else
    reading.refuse(*component, fmt::format("the builder {} is not known", name),
                   "its sizes stand in torchtune's code");
  if (!adapter) return;
  const Value* dora = reading.take("model.use_dora");
  reading.say("adapter.method",
              dora != nullptr && truth_of(*dora).value_or(false) ? "dora" : "lora", *component);
  static constexpr Row kAdapter[] = {
      {"model.lora_rank", "adapter.rank", "", "", "8"},
      {"model.lora_alpha", "adapter.alpha"},
      {"model.lora_dropout", "adapter.dropout"},
  };
  reading.rows(kAdapter);
  Value targets = Value::array();
  const Value* attention = reading.take("model.lora_attn_modules");
  if (attention != nullptr && attention->is_array())
    for (const Value& module : attention->items())
      targets.items().push_back(
          Value::string(word_of(module) == "output_proj" ? "o_proj" : word_of(module)));
  if (reading.is("model.apply_lora_to_mlp"))
    for (const char* module : {"gate_proj", "up_proj", "down_proj"})
      targets.items().push_back(Value::string(module));
  if (reading.is("model.apply_lora_to_output")) targets.items().push_back(Value::string("lm_head"));
  if (!targets.items().empty())
    reading.say("adapter.target_modules", std::move(targets),
                attention == nullptr ? *component : *attention);
  const Value* quantise = reading.take("model.quantize_base");
  if (quantised || (quantise != nullptr && truth_of(*quantise).value_or(false))) {
    reading.say("adapter.base", "nf4", quantise == nullptr ? *component : *quantise);
    reading.take_default("adapter.double_quantization", Value::boolean(true),
                         "torchao's NF4 quantises its constants");
  }
}

}  // namespace

void read_torchtune(const Value& document, Launch& launch, std::string_view recipe) {
  ConfigReader reading(document, "torchtune", launch.into);
  launch.into.formats.emplace_back("torchtune YAML");
  read_model(reading);
  reading.rows(kRows);
  const bool own = is_weighed_as_own(launch.into.run);
  reading.take_default(
      "implementation", Value::string(own ? "torchtune" : "transformers"),
      own ? "torchtune's own model code" : "the closest to torchtune's code for this run");
  if (!reading.has("training.sequence_length"))
    reading.lacks("training.sequence_length", "max_seq_len is null: the data decides");
  if (!reading.has("training.micro_batch")) reading.lacks("training.micro_batch", "no batch_size");
  const bool single =
      recipe.find("single_device") != std::string_view::npos ||
      (recipe.empty() &&
       word_of(document.find("device") == nullptr ? Value() : *document.find("device")) == "cuda" &&
       document.find("fsdp_cpu_offload") == nullptr && document.find("clip_grad_norm") != nullptr);
  if (recipe.find("distributed") != std::string_view::npos ||
      document.find("fsdp_cpu_offload") != nullptr ||
      document.find("custom_sharded_layers") != nullptr)
    reading.say("engine", "fsdp2", document);
  else if (single)
    reading.say("engine", "ddp", document);
  else
    reading.lacks("engine", "the recipe's name decides: *_distributed is FSDP2");
  if (const Value* offload = reading.take("fsdp_cpu_offload");
      offload != nullptr && truth_of(*offload).value_or(false)) {
    reading.say("offload.parameters", "cpu", *offload);
    reading.say("offload.optimizer", "cpu", *offload);
  }
  if (const Value* reshard = reading.take("fsdp_reshard_after_forward"))
    reading.say("parallel.zero_stage", Value::integer(truth_of(*reshard).value_or(true) ? 3 : 2),
                *reshard);
  if (const Value* optimizer = reading.take("optimizer._component_")) {
    if (const auto ours = ours_of(kOptimizers, word_of(*optimizer)); ours && !ours->empty())
      reading.say("training.optimizer", *ours, *optimizer);
    else
      reading.refuse(*optimizer, fmt::format("the optimizer {} is not known", word_of(*optimizer)),
                     "its states cannot be counted");
  }
  if (const Value* fused = reading.take("optimizer.fused"))
    reading.say("training.optimizer_form", truth_of(*fused).value_or(false) ? "fused" : "foreach",
                *fused);
  if (const Value* loss = reading.take("loss._component_")) {
    const std::string name = word_of(*loss);
    if (name.find("LinearCrossEntropyLoss") != std::string::npos ||
        name.find("Chunked") != std::string::npos)
      reading.say("training.loss", "chunked", *loss);
    else
      reading.say("training.loss", "plain", *loss);
  }
  if (const Value* compiled = reading.take("compile"); compiled != nullptr && compiled->is_bool())
    reading.say("training.compile", *compiled, *compiled);
  if (document.find("clip_grad_norm") != nullptr) read_clip(reading, "clip_grad_norm", false);
  if (const Value* mode = reading.take("ac_mode");
      mode != nullptr && word_of(*mode) == "selective") {
    const Value* option = reading.take("ac_option");
    remove_path(launch.into.run, "recompute.mode");
    if (option != nullptr && count_of(*option)) {
      reading.say("recompute.mode", "every", *mode);
      reading.say("recompute.every", Value::integer(*count_of(*option)), *option);
    } else {
      reading.say("recompute.mode", "operators", *mode);
    }
  }
  reading.carry_rest();
}

}  // namespace steelyard
