// OpenRLHF's flags: openrlhf/cli/train_{sft,dpo,rm,ppo_ray}.py, openrlhf/utils/deepspeed/deepspeed_utils.py (August 2026), with
// the names before they had sections.
//
//   deepspeed --module openrlhf.cli.train_sft --model.model_name_or_path meta-llama/Meta-Llama-3-8B --ds.zero_stage 2 ...
//   deepspeed --module openrlhf.cli.train_sft --pretrain meta-llama/Meta-Llama-3-8B --zero_stage 2 --bf16 ...
//
// Fine-tuning is weighed. Preferences, rewards and PPO are read, and refused by name when they are weighed.
#include <fmt/format.h>

#include "formats/launch/arguments.h"
#include "formats/launch/hugging_face.h"
#include "formats/launch/programs.h"
#include "formats/launch/unweighed_keys.h"

namespace steelyard {
namespace {

constexpr Row kRows[] = {
    {"data.max_len", "training.sequence_length", "", "max_len", "2048"},
    {"train.micro_batch_size", "training.micro_batch", "", "micro_train_batch_size", "8"},
    {"train.batch_size", "training.global_batch", "", "train_batch_size", "128"},
    {"model.gradient_checkpointing_enable", "recompute.mode", "true=full|false=none",
     "gradient_checkpointing|actor.gradient_checkpointing_enable", "none"},
    {"model.gradient_checkpointing_reentrant", "recompute.reentrant", "",
     "gradient_checkpointing_use_reentrant"},
    {"ds.ring_attn_size", "parallel.context", "", "ring_attn_size"},
};

constexpr Row kLora[] = {
    {"ds.lora.alpha", "adapter.alpha", "", "lora_alpha", "16"},
    {"ds.lora.dropout", "adapter.dropout", "", "lora_dropout", "0"},
};

constexpr UnweighedKey kUnweighed[] = {
    {"ds.deepcompile", "DeepSpeed compiles, and moves gathers"},
    {"deepcompile", "DeepSpeed compiles, and moves gathers"},
    {"train.dynamic_batch_enable", "micro-batches are filled up to a number of tokens"},
};

// A key under its name of today, else the one before sections.
const Value* take_either(ConfigReader& reading, std::string_view now, std::string_view before) {
  const Value* value = reading.take(now);
  const Value* old = reading.take(before);
  return value != nullptr ? value : old;
}

// get_train_ds_config: what it leaves on "auto" DeepSpeed takes from its own defaults.
Value deepspeed_of(ConfigReader& reading) {
  const Value& theirs = reading.theirs();
  Value document = Value::table();
  document.set_mark(theirs.mark());
  const auto put = [&](std::string_view path, const Value* said, Value otherwise) {
    Value value = said != nullptr ? *said : std::move(otherwise);
    set_path(document, path, std::move(value), said != nullptr ? said->place() : theirs.place());
  };
  const auto device = [&](const Value* on) {
    return Value::string(on != nullptr && truth_of(*on).value_or(false) ? "cpu" : "none");
  };
  put("zero_optimization.stage", take_either(reading, "ds.zero_stage", "zero_stage"),
      Value::integer(2));
  put("zero_optimization.offload_optimizer.device", nullptr,
      device(take_either(reading, "ds.adam_offload", "adam_offload")));
  put("zero_optimization.offload_param.device", nullptr,
      device(take_either(reading, "ds.offload", "offload")));
  if (const Value* part = take_either(reading, "ds.zpg", "zpg");
      part != nullptr && count_of(*part).value_or(1) > 1)
    put("zero_optimization.zero_hpz_partition_size", part, {});
  put("zero_optimization.overlap_comm", take_either(reading, "ds.overlap_comm", "overlap_comm"),
      Value::boolean(false));
  const Value* type = reading.take("ds.param_dtype");
  const bool half = type != nullptr && word_of(*type) == "fp16";
  // Before sections --bf16 was a switch; without it DeepSpeed computes in fp32.
  const bool single = theirs.find("pretrain") != nullptr && reading.on("bf16") == nullptr;
  put(half ? "fp16.enabled" : "bf16.enabled", reading.take("bf16"), Value::boolean(!single));
  put("gradient_clipping", reading.take("max_norm"), Value::number(1.0));
  if (const Value* wide = take_either(reading, "ds.grad_accum_dtype", "grad_accum_dtype"))
    put("data_types.grad_accum_dtype", wide, {});
  if (const Value* tensor =
          take_either(reading, "ds.tensor_parallel_size", "ds_tensor_parallel_size"))
    put("tensor_parallel.autotp_size", tensor, {});
  return document;
}

void read_openrlhf_adapter(ConfigReader& reading) {
  const Value* rank = take_either(reading, "ds.lora.rank", "lora_rank");
  if (rank == nullptr || count_of(*rank).value_or(0) <= 0) return;
  reading.say("adapter.method", "lora", *rank);
  reading.say("adapter.rank", *rank, *rank);
  reading.rows(kLora);
  for (const char* key : {"ds.lora.target_modules", "target_modules"})
    if (reading.theirs().at(key) != nullptr) read_targets(reading, key, "all-linear");
  if (!reading.has("adapter.target_modules"))
    reading.take_default("adapter.target_modules", Value::string("all-linear"),
                         "OpenRLHF's target_modules is all-linear");
  const Value* four = reading.on("ds.load_in_4bit");
  if (four == nullptr) four = reading.on("load_in_4bit");
  if (four == nullptr) return;
  reading.say("adapter.base", "nf4", *four);
  reading.say("adapter.double_quantization", Value::boolean(true), *four);
}

void read_openrlhf_kernels(ConfigReader& reading) {
  const Value* liger = reading.on("ds.use_liger_kernel");
  if (liger == nullptr) liger = reading.on("use_liger_kernel");
  if (liger != nullptr) reading.say("training.kernels", "liger", *liger);
  reading.take_default("training.loss", Value::string("plain"),
                       "OpenRLHF's losses take whole logits");
  if (reading.theirs().at("ds.attn_implementation") != nullptr)
    read_attention(reading, "ds.attn_implementation");
  if (const Value* flash = reading.on("flash_attn"))
    reading.say("training.attention", "flash", *flash);
  const Value* optimizer = reading.take("optim");
  if (optimizer != nullptr && word_of(*optimizer) == "muon")
    reading.say("training.optimizer", "muon", *optimizer);
  else
    reading.take_default("training.optimizer", Value::string("adamw"),
                         "DeepSpeed's FusedAdam, or its Adam of the host");
  if (reading.has("parallel.context"))
    reading.take_default("parallel.context_method", Value::string("ring"),
                         "OpenRLHF divides sequences by ring attention");
}

// Each model of PPO has devices of its own, unless all of them share one set.
void read_ray_devices(ConfigReader& reading) {
  const Value* nodes = take_either(reading, "actor.num_nodes", "actor_num_nodes");
  const Value* each = take_either(reading, "actor.num_gpus_per_node", "actor_num_gpus_per_node");
  const Value* together = reading.on("train.colocate_all");
  if (together == nullptr) together = reading.on("colocate_all_models");
  const auto machines = nodes == nullptr ? std::nullopt : count_of(*nodes);
  const auto devices = each == nullptr ? std::nullopt : count_of(*each);
  if (together == nullptr || !machines || !devices || *machines < 1 || *devices < 1 ||
      *machines > 4'096 || *devices > 4'096)
    return reading.lacks("cluster.devices",
                         "actor, critic, reference, reward and vLLM have devices of their own");
  reading.say("cluster.devices", Value::integer(*machines * *devices), *each);
  reading.say("cluster.devices_per_node", Value::integer(*devices), *each);
}

// train_sft, train_dpo, train_ppo_ray ... of the module's name; nothing for what trains nothing.
std::optional<std::string> method_of(const ProgramCall& call) {
  const std::size_t at = call.name.rfind("train_");
  if (at == std::string::npos) return std::nullopt;
  return ours_of(
      "sft=sft|dpo=dpo|kto=kto|rm=rm|prm=other|kd=other|ppo=ppo|ppo_ray=ppo|"
      "grpo_ray=grpo",
      call.name.substr(at + 6));
}

bool is_openrlhf(const ProgramCall& call) {
  return call.name.starts_with("openrlhf.") ||
         (call.program.as_string().find("openrlhf/cli/") != std::string::npos);
}

bool read_openrlhf(const ProgramCall& call, Launch& launch) {
  const auto method = method_of(call);
  if (!method) return false;
  Value document = read_arguments(call.words, true).flags;
  document.set_mark(call.program.mark());
  ConfigReader reading(document, "openrlhf", launch.into);
  launch.into.formats.emplace_back("OpenRLHF arguments");
  for (const char* key : {"model.model_name_or_path", "actor.model_name_or_path", "pretrain"})
    if (const Value* model = reading.take(key)) {
      say_model(reading, *model);
      break;
    }
  if (*method == "other")
    reading.unweighed(call.program, call.name, "its losses and further models are not weighed");
  else
    reading.say("training.method", *method, call.program);
  refuse_preferences_of(reading, "OpenRLHF", call.program);
  if (*method == "ppo" || *method == "grpo") read_ray_devices(reading);
  reading.rows(kRows);
  read_openrlhf_adapter(reading);
  read_openrlhf_kernels(reading);
  reading.unweighed(kUnweighed);
  for (const char* key : {"ds.packing_samples", "packing_samples"}) reading.take(key);
  const Value deepspeed = deepspeed_of(reading);
  reading.carry_rest();
  read_deepspeed(deepspeed, launch);
  return true;
}

}  // namespace

extern const TrainingProgram openrlhf_program = {"OpenRLHF", is_openrlhf, read_openrlhf};

}  // namespace steelyard
