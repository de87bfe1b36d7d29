// `megatron sft`: Megatron-LM's flags, with the defaults of swift/megatron/arguments/megatron_args.py (4.5).
//
//   NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-30B-A3B --expert_model_parallel_size 8 --max_length 8192
//   = the flags --seq-length 8192 --expert-model-parallel-size 8 --bf16 --use-distributed-optimizer ...
#include <fmt/format.h>

#include <algorithm>

#include "formats/launch/hugging_face.h"
#include "formats/launch/megatron_bridge.h"
#include "formats/launch/ms_swift.h"

namespace steelyard {
namespace {

// Megatron-LM's name of a flag, and what is taken where it is not given.
struct SwiftFlag {
  std::string_view theirs, flag, absent;
};
constexpr SwiftFlag kFlags[] = {
    {"max_length", "seq_length", ""},
    {"packing_length", "seq_length", ""},
    {"micro_batch_size", "micro_batch_size", "1"},
    {"global_batch_size", "global_batch_size", "16"},
    {"virtual_pipeline_model_parallel_size", "num_virtual_stages_per_pipeline_rank", ""},
    {"microbatch_group_size_per_vp_stage", "microbatch_group_size_per_virtual_pipeline_stage", ""},
    {"recompute_granularity", "recompute_granularity", "selective"},
    {"use_distributed_optimizer", "use_distributed_optimizer", "true"},
    {"expert_tensor_parallel_size", "expert_tensor_parallel_size", "1"},
    {"attention_backend", "attention_backend", "flash"},
    {"hidden_dropout", "hidden_dropout", "0.0"},
    {"attention_dropout", "attention_dropout", "0.0"},
    {"make_vocab_size_divisible_by", "make_vocab_size_divisible_by", "1"},
};

constexpr UnweighedKey kUnweighed[] = {
    {"freeze_parameters", "parameters are frozen by Megatron-core's names"},
    {"freeze_parameters_ratio", "a part of the parameters is frozen, by their count"},
    {"freeze_parameters_regex", "a regular expression chooses what is frozen"},
    {"trainable_parameters", "parameters that are trained among frozen ones"},
    {"teacher_model", "a second model beside the first"},
    {"ref_model", "a second model beside the first"},
    {"mcore_ref_model", "a second model beside the first"},
    {"fp4_format", "arithmetic in 4 bits"},
    {"megatron_extra_kwargs", "further values of Megatron-core's configuration"},
    {"new_special_tokens", "the vocabulary grows by them", true},
};

// Keys of ms-swift that have no flag of Megatron-LM, or another meaning there.
constexpr std::string_view kOwn[] = {
    "model",        "model_type",        "mcore_model",  "tuner_type",     "train_type",
    "lora_rank",    "lora_alpha",        "lora_dropout", "lora_dtype",     "target_modules",
    "target_regex", "modules_to_save",   "rlhf_type",    "task_type",      "ENV",
    "dataset",      "val_dataset",       "loss_type",    "torch_dtype",    "num_labels",
    "packing",      "padding_free",      "use_dora",     "swift_version",  "teacher_model",
    "ref_model",    "mcore_ref_model",   "freeze_vit",   "freeze_aligner", "freeze_llm",
    "fp4_format",   "new_special_tokens"};

void put_absent(Value& flags, std::string_view name, std::string_view value, const Mark& mark) {
  Value taken = typed_value(value);
  taken.set_mark(mark);
  flags.members().push_back({std::string(name), mark, std::move(taken)});
}

// As `document` says them, Megatron-LM's flags; what ms-swift takes of itself is marked as a default.
Value megatron_flags(ConfigReader& reading, const Value& document) {
  Value flags = Value::table();
  flags.set_mark(document.mark());
  for (const Value::Member& member : document.members()) {
    if (std::find(std::begin(kOwn), std::end(kOwn), member.key) != std::end(kOwn)) continue;
    reading.take(member.key);
    std::string name = member.key;
    for (const SwiftFlag& one : kFlags)
      if (one.theirs == member.key) name = one.flag;
    Value value = member.value;
    if (name == "optimizer" && word_of(value) == "dist_muon") {
      reading.unweighed(value, "optimizer dist_muon",
                        "states are divided over the ranks by layers");
      value = Value::string("muon");
      value.set_mark(member.value.mark());
    }
    if (name == "recompute_granularity" && word_of(value) == "none") continue;
    if (name == "attention_backend" && word_of(value).starts_with("flash_")) {
      value = Value::string("flash");
      value.set_mark(member.value.mark());
    }
    put_flag(flags, name, std::move(value), member.value);
  }
  Place taken;
  taken.source = "<ms-swift's default>";
  for (const SwiftFlag& one : kFlags)
    if (!one.absent.empty() && flags.find(one.flag) == nullptr &&
        !(document.find(one.theirs) != nullptr))
      put_absent(flags, one.flag, one.absent, mark_of(taken));
  const Value* type = reading.take("torch_dtype");
  const std::string word = type == nullptr ? "bfloat16" : word_of(*type);
  if (flags.find("bf16") == nullptr && flags.find("fp16") == nullptr)
    put_absent(flags, word == "bfloat16" || word == "bf16" ? "bf16" : "fp16", "true",
               type == nullptr ? mark_of(taken) : type->mark());
  return flags;
}

}  // namespace

void read_swift_megatron(const Value& document, Launch& launch, std::string_view command,
                         bool from_environment) {
  ConfigReader reading(document, "ms-swift", launch.into);
  launch.into.formats.emplace_back("ms-swift arguments");
  read_swift_model(reading);
  read_swift_method(reading, command);
  if (const Value* task = reading.take("task_type");
      task != nullptr && word_of(*task) != "causal_lm")
    reading.unweighed(*task, fmt::format("task_type {}", word_of(*task)),
                      "another head and loss than those of the vocabulary");
  if (from_environment) read_swift_devices(reading, launch);
  const Value* tuner = reading.take("tuner_type");
  if (tuner == nullptr) tuner = reading.take("train_type");
  read_swift_adapter(reading, tuner, true);
  reading.unweighed(kUnweighed);
  for (const char* key : {"packing", "padding_free"}) reading.take(key);
  const Value flags = megatron_flags(reading, document);
  reading.carry_rest();
  read_megatron(flags, launch);
  list_added_flags(launch.into);
  if (!reading.has("training.sequence_length"))
    reading.lacks("training.sequence_length",
                  "without --max_length only the model's own limit cuts");
}

}  // namespace steelyard
