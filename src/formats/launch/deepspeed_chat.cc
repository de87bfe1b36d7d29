#include "formats/launch/deepspeed_chat.h"

#include <fmt/format.h>

#include <algorithm>

#include "document/read.h"
#include "formats/launch/arguments.h"
#include "formats/launch/hugging_face.h"
#include "formats/launch/script_flags.h"

namespace steelyard {
namespace {

bool has_flag(const Value& flags, std::initializer_list<std::string_view> keys) {
  return std::any_of(keys.begin(), keys.end(),
                     [&](std::string_view key) { return flags.find(key) != nullptr; });
}

// What utils/ds_utils.py makes of the flags, as DeepSpeed's own document; each value stands where its flag was written.
Value configuration_of(ScriptFlags& flags) {
  Value document = Value::table();
  document.set_mark(flags.program().mark());
  const auto put = [&](std::string_view path, Value value, const Value* at) {
    const Value& place = at != nullptr ? *at : flags.program();
    value.set_mark(place.mark());
    set_path(document, path, std::move(value), place.place());
  };
  const Value* stage = flags.take("zero_stage");
  const auto number = stage == nullptr ? std::optional<std::int64_t>(0) : count_of(*stage);
  if (number)
    put("zero_optimization.stage", Value::integer(*number), stage);
  else
    ConfigReader(document, "DeepSpeed-Chat", flags.launch().into)
        .warn(*stage, "zero_stage is a variable that nobody sets",
              "DeepSpeed-Chat's default, 0, is weighed", "--zero-stage says it");
  put("zero_optimization.overlap_comm", Value::boolean(true), nullptr);
  if (number == 3) {
    put("zero_optimization.stage3_param_persistence_threshold", Value::integer(10'000), nullptr);
    put("zero_optimization.stage3_max_live_parameters", Value::integer(30'000'000), nullptr);
    put("zero_optimization.stage3_prefetch_bucket_size", Value::integer(30'000'000), nullptr);
  }
  if (const Value* offload = flags.on("offload")) {
    put("zero_optimization.offload_optimizer.device", Value::string("cpu"), offload);
    if (number == 3) put("zero_optimization.offload_param.device", Value::string("cpu"), offload);
  }
  const Value* type = flags.take("dtype");
  const bool brain = type != nullptr && word_of(*type) == "bf16";
  put(brain ? "bf16.enabled" : "fp16.enabled", Value::boolean(true), type);
  put("gradient_clipping", Value::number(1.0), nullptr);
  return document;
}

// dschat/utils/module/lora.py: every linear module whose name holds lora_module_name; without only_optimize_lora the embedding,
// norms and biases train beside it.
void read_low_rank(ScriptFlags& flags) {
  const Value* rank = flags.take("lora_dim");
  const Value* alone = flags.on("only_optimize_lora");
  const Value* modules = flags.take("lora_module_name");
  flags.take("lora_learning_rate");
  if (rank == nullptr || count_of(*rank).value_or(0) < 1) return;
  if (alone == nullptr)
    return flags.unweighed(*rank, "lora_dim without only_optimize_lora",
                           "the embedding, norms and biases are trained beside the adapter");
  flags.say("adapter.method", "lora", *rank);
  flags.say("adapter.rank", Value::integer(*count_of(*rank)), *rank);
  flags.otherwise("adapter.target_modules", Value::string("all-linear"),
                  modules == nullptr
                      ? "lora_module_name is decoder.layers. unless told"
                      : fmt::format("every linear module within {}", word_of(*modules)));
}

// Which of the three steps: two of them are told by their own flags, or by the folder that they stand in.
void say_step(ScriptFlags& flags) {
  const auto stands_in = [&](std::string_view folder) {
    const std::string& path = flags.program().as_string();
    return path.find(folder) != std::string::npos ||
           flags.launch().folder.find(folder) != std::string::npos;
  };
  const Value& program = flags.program();
  if (has_flag(flags.all(), {"actor_model_name_or_path", "actor_zero_stage"}) ||
      stands_in("step3_rlhf"))
    flags.say("training.method", "ppo", program);
  else if (has_flag(flags.all(), {"beta"}) || stands_in("dpo_finetuning")) {
    flags.say("training.method", "dpo", program);
    flags.unweighed(
        program, "dpo of DeepSpeed-Chat",
        "a reference stands beside the policy, and both make whole logits in its own way");
  } else if (has_flag(flags.all(), {"num_padding_at_beginning"}) || stands_in("reward_model")) {
    flags.say("training.method", "rm", program);
    flags.unweighed(program, "rm of DeepSpeed-Chat",
                    "its pairs are scored token by token in its own way; TRL's is weighed");
  } else
    flags.otherwise("training.method", Value::string("sft"), "step 1 trains the next token");
}

}  // namespace

bool is_deepspeed_chat(const ProgramCall& call) {
  if (call.name != "main") return false;
  const Value& flags = call.arguments.flags;
  // Megatron-DeepSpeed's tasks/main.py has --deepspeed and --data_path, too.
  if (has_flag(flags, {"num_layers", "tensor_model_parallel_size", "task"})) return false;
  return has_flag(flags, {"zero_stage", "actor_zero_stage", "only_optimize_lora", "lora_dim",
                          "actor_model_name_or_path", "sft_only_data_path", "data_split"}) ||
         (has_flag(flags, {"data_path"}) && has_flag(flags, {"deepspeed"}));
}

bool read_deepspeed_chat(const ProgramCall& call, Launch& launch) {
  constexpr const char* kWhy = "DeepSpeed-Chat's default";
  ScriptFlags flags(call, launch);
  launch.into.formats.emplace_back("DeepSpeed-Chat (Trainer-like arguments)");
  say_step(flags);
  // DeepSpeed-VisualChat has the same flags beside these.
  if (const Value* tower = flags.take("vision_model_name_or_path"))
    flags.unweighed(*tower, "vision_model_name_or_path",
                    "a tower of vision and a projector beside the language model");
  const Value none = Value::table();
  ConfigReader reading(none, "DeepSpeed-Chat", launch.into);
  const Value* model = flags.take("model_name_or_path");
  for (const char* key : {"actor_model_name_or_path", "lm_model_name_or_path"})
    if (model == nullptr) model = flags.take(key);
  if (model != nullptr) say_model(reading, *model);
  flags.row("per_device_train_batch_size", "training.micro_batch", Value::integer(16), kWhy);
  flags.row("gradient_accumulation_steps", "training.gradient_accumulation", Value::integer(1),
            kWhy);
  flags.row("max_seq_len", "training.sequence_length", Value::integer(512), kWhy);
  const Value* again = flags.take("gradient_checkpointing");
  if (again != nullptr && truth_of(*again).value_or(true))
    flags.say("recompute.mode", "full", *again);
  else
    flags.otherwise("recompute.mode", Value::string("none"), kWhy);
  flags.row("dropout", "training.dropout", Value(), kWhy);
  read_low_rank(flags);
  if (const Value* loss = flags.on("compute_fp32_loss"))
    reading.warn(*loss, "compute_fp32_loss is not weighed", "logits are widened once more");
  read_deepspeed(configuration_of(flags), launch);
  flags.carry_rest("deepspeed-chat");
  return true;
}

// --- scripts that are not known, with DeepSpeed's file ----------------------------------------------------------
namespace {

const Value* deepspeed_file(const Value& flags) {
  for (const char* key : {"deepspeed_config", "deepspeed"})
    if (const Value* file = flags.find(key);
        file != nullptr && file->is_string() && truth_of(*file) == std::nullopt)
      return file;
  return nullptr;
}

// Models with another head than a language model's: its logits are few.
void refuse_task(const ProgramCall& call, ScriptFlags& flags) {
  for (const std::string_view task : {"glue", "squad", "swag", "cifar", "imagenet", "gan"})
    if (call.name.find(task) != std::string::npos)
      return flags.unweighed(call.program, call.name,
                             "another head or another kind of model than a language model's");
}

}  // namespace

bool is_script_with_deepspeed_file(const ProgramCall& call) {
  const Value& flags = call.arguments.flags;
  const bool trainers =
      has_flag(flags, {"per_device_train_batch_size"}) && !has_flag(flags, {"deepspeed_config"});
  return deepspeed_file(flags) != nullptr && !trainers;
}

bool read_script_with_deepspeed_file(const ProgramCall& call, Launch& launch) {
  ScriptFlags flags(call, launch);
  const Value* file = deepspeed_file(flags.all());
  if (file == nullptr) return false;
  const Value at = *file;
  for (const char* key : {"deepspeed_config", "deepspeed"}) flags.take(key);
  // Spelled like Trainer's, and meaning the same to every script.
  const bool like_trainer = flags.says("per_device_train_batch_size");
  launch.into.formats.emplace_back(like_trainer ? "a script with Trainer-like arguments"
                                                : "a script");
  if (const Value* model = flags.take("model_name_or_path")) {
    const Value none = Value::table();
    ConfigReader named(none, "script", launch.into);
    say_model(named, *model);
  }
  if (like_trainer) {
    flags.row("per_device_train_batch_size", "training.micro_batch", Value(), "");
    flags.row("gradient_accumulation_steps", "training.gradient_accumulation", Value(), "");
    for (const char* key : {"max_seq_length", "max_length", "block_size"})
      if (flags.says(key) && launch.into.run.at("training.sequence_length") == nullptr)
        flags.row(key, "training.sequence_length", Value(), "");
  }
  refuse_task(call, flags);
  Value table = Value::table();
  table.members().push_back({"deepspeed", at.mark(), at});
  ConfigReader reading(table, "script", launch.into);
  read_deepspeed_key(reading, launch, "deepspeed");
  reading.lacks("model", fmt::format("the arguments of {} are not known", call.name));
  reading.lacks("training.sequence_length",
                fmt::format("the arguments of {} are not known", call.name));
  flags.carry_rest("script");
  return true;
}

}  // namespace steelyard
