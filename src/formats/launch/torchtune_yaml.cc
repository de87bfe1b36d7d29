// torchtune's YAML (read, not written: the project is archived). torchtune/config, recipes/configs.
#include <fmt/format.h>

#include <algorithm>

#include "formats/launch/formats.h"
#include "formats/launch/hugging_face.h"
#include "formats/launch/torchtune_model.h"
#include "formats/launch/torchtune_recipe.h"

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
    "bitsandbytes.optim.PagedAdamW=adamw-paged|bitsandbytes.optim.AdamW=adamw|"
    "bitsandbytes.optim.PagedAdamW32bit=adamw-paged|torchao.optim.AdamW8bit=adamw-8bit|"
    "torchao.prototype.low_bit_optim.AdamW8bit=adamw-8bit|torchao.optim.CPUOffloadOptimizer=";

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

// Who runs it: what a recipe means for the engine and for what is trained.
void read_recipe(ConfigReader& reading, const TorchtuneRecipe& recipe) {
  Value at = Value::string(recipe.name);
  at.set_mark(recipe.mark);
  const bool several = recipe.ranks == TorchtuneRecipe::Ranks::kFsdp2;
  if (recipe.ranks == TorchtuneRecipe::Ranks::kUnknown) {
    reading.lacks("engine", "the recipe's name decides: *_distributed is FSDP2");
  } else {
    reading.say("engine", several ? "fsdp2" : "ddp", at);
    if (!several && !reading.has("cluster.devices"))
      reading.take_default("cluster.devices", Value::integer(1),
                           fmt::format("{}: one process", recipe.why));
    else if (recipe.processes)
      reading.lacks("cluster.devices", fmt::format("its header starts {}: --on {}xDEVICE",
                                                   *recipe.processes, *recipe.processes));
  }
  const auto holds = [&](std::string_view part) {
    return recipe.name.find(part) != std::string::npos;
  };
  for (const std::string_view other : {"generate", "eleuther_eval", "quantize"})
    if (recipe.name == other || holds(fmt::format("dev/{}", other)))
      reading.refuse(at, fmt::format("the recipe {} trains nothing", recipe.name),
                     "full_finetune_*, lora_finetune_* and the like do");
  if (holds("early_exit"))
    reading.unweighed(at, recipe.name, "layers are left out, and their logits are more than one's");
  if (holds("qat") && reading.theirs().find("quantizer") == nullptr)
    reading.unweighed(at, recipe.name, "fake quantisation of weights and activations");
}

// What is trained besides the next token: by the loss and by models beside the trained one.
void read_method(ConfigReader& reading, const TorchtuneRecipe& recipe) {
  static constexpr std::string_view kLosses = "DPO=dpo|IPO=dpo|RSO=dpo|SimPO=dpo|GRPO=grpo|PPO=ppo";
  Value at = Value::string(recipe.name);
  at.set_mark(recipe.mark);
  const Value* loss = reading.theirs().at("loss._component_");
  const std::string component = loss == nullptr ? "" : word_of(*loss);
  for (const std::string_view name : {"DPO", "IPO", "RSO", "SimPO", "GRPO", "PPO"})
    if (component.find(name) != std::string::npos && !reading.has("training.method"))
      reading.say("training.method", *ours_of(kLosses, name), *loss);
  for (const std::string_view name : {"dpo", "grpo", "ppo"})
    if (recipe.name.find(name) != std::string::npos && !reading.has("training.method"))
      reading.say("training.method", name, at);
  constexpr UnweighedKey kBeside[] = {
      {"teacher_model", "a teacher's weights and logits beside the student's"},
      {"reward_and_value_model", "two models beside the policy"},
      {"quantizer", "fake quantisation of weights and activations"},
      {"enable_fp8_training",
       "products in 8 bits of torchao's: weighed as bf16, which keeps as much", true},
  };
  reading.unweighed(kBeside);
}

// Modules that are units of FSDP beside the layers, by name (torchtune 0.6, training/_distributed.py).
void read_sharded_layers(ConfigReader& reading) {
  const Value* named = reading.take("custom_sharded_layers");
  const std::vector<Value> names = words_of(named);
  if (names.empty()) return;
  const auto has = [&](std::string_view name) {
    return std::any_of(names.begin(), names.end(),
                       [&](const Value& one) { return word_of(one) == name; });
  };
  if (names.size() == 2 && has("tok_embeddings") && has("output"))
    return reading.say("wrap.ends", "apart", *named);
  reading.warn(*named, "custom_sharded_layers is not weighed",
               "other modules than the embedding and the head are units of their own");
}

}  // namespace

void read_torchtune(const Value& document, Launch& launch, std::string_view told) {
  ConfigReader reading(document, "torchtune", launch.into);
  launch.into.formats.emplace_back("torchtune YAML");
  const TorchtuneRecipe recipe = torchtune_recipe(document, told);
  const bool policy = document.find("model") == nullptr && document.find("policy_model") != nullptr;
  read_torchtune_model(reading, policy ? "policy_model" : "model");
  reading.rows(kRows);
  const bool own = is_weighed_as_own(launch.into.run);
  reading.take_default(
      "implementation", Value::string(own ? "torchtune" : "transformers"),
      own ? "torchtune's own model code" : "the closest to torchtune's code for this run");
  if (!reading.has("training.sequence_length"))
    reading.lacks("training.sequence_length", "max_seq_len is null: the data decides");
  if (!reading.has("training.micro_batch")) reading.lacks("training.micro_batch", "no batch_size");
  read_recipe(reading, recipe);
  read_sharded_layers(reading);
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
  read_method(reading, recipe);
  if (const Value* loss = reading.take("loss._component_")) {
    const std::string name = word_of(*loss);
    if (name.find("LinearCrossEntropyLoss") != std::string::npos ||
        name.find("Chunked") != std::string::npos)
      reading.say("training.loss", "chunked", *loss);
    else
      reading.say("training.loss", "plain", *loss);
  }
  if (const Value* chunks = reading.take("loss.num_output_chunks"))
    reading.say("training.loss_chunks", *chunks, *chunks);
  if (const Value* compiled = document.find("compile"); compiled != nullptr) {
    // By part since 0.7; the layers decide.
    const Value* layers = reading.take(compiled->is_table() ? "compile.model" : "compile");
    if (layers != nullptr && layers->is_bool()) reading.say("training.compile", *layers, *layers);
  }
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
