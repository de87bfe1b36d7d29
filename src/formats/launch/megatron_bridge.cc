#include "formats/launch/megatron_bridge.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "formats/launch/hugging_face.h"

namespace steelyard {
namespace {

// The last word of a Python object: {_target_: torch.bfloat16, _call_: false} is bfloat16; a word is itself.
std::string object_in(const Value& value) {
  const Value* target = value.is_table() ? value.find("_target_") : &value;
  const std::string word = target == nullptr ? "" : word_of(*target);
  const std::size_t dot = word.rfind('.');
  return word.substr(dot == std::string::npos ? 0 : dot + 1);
}

void translate_activation(ConfigReader& reading, Value& flags) {
  const Value* gate = reading.on("model.gated_linear_unit");
  const Value* function = reading.take("model.activation_func");
  const std::string name = function == nullptr ? "" : object_in(*function);
  if (gate != nullptr && (name.empty() || name == "silu"))
    put_flag(flags, "swiglu", Value::boolean(true), *gate);
  else if (gate != nullptr)
    reading.refuse(*function, fmt::format("a gate of {} is not read", name), "silu is");
  else if (name == "squared_relu")
    put_flag(flags, "squared_relu", Value::boolean(true), *function);
}

// A name of training/mixed_precision.py: bf16_with_fp8_current_scaling_mixed, also with hyphens.
void say_precision(std::string word, const Value& at, Value& flags) {
  std::replace(word.begin(), word.end(), '-', '_');
  const auto has = [&](std::string_view part) { return word.find(part) != std::string::npos; };
  if (has("bf16")) put_flag(flags, "bf16", Value::boolean(true), at);
  if (word.starts_with("fp16")) put_flag(flags, "fp16", Value::boolean(true), at);
  if (!has("fp8")) return;
  put_flag(flags, "fp8_format", Value::string("hybrid"), at);
  put_flag(flags, "fp8_recipe",
           Value::string(has("mxfp8")             ? "mxfp8"
                         : has("current_scaling") ? "tensorwise"
                         : has("subchannel")      ? "blockwise"
                                                  : "delayed"),
           at);
}

// MixedPrecisionConfig.setup: what stands here goes before the same names under model, ddp and optimizer.
void translate_precision(ConfigReader& reading, Value& flags, bool whole) {
  const Value* mixed = reading.take("mixed_precision");
  const Value* reduced = reading.take("ddp.grad_reduce_in_fp32");
  if (mixed != nullptr && (!mixed->is_table() || mixed->find("bf16") == nullptr)) {
    if (object_in(*mixed).find("fp4") != std::string::npos)
      return reading.refuse(*mixed, "arithmetic in 4 bits", "it is not weighed yet");
    return say_precision(object_in(*mixed), *mixed, flags);
  }
  if (mixed == nullptr && !whole) {
    reading.take_default("training.precision", Value::string("bf16-mixed-fp32-gradients"),
                         "Megatron-Bridge's recipes train in bf16_mixed");
    return;
  }
  const auto part = [&](const char* name) {
    return mixed != nullptr ? mixed->find(name) : reading.take(fmt::format("model.{}", name));
  };
  const auto says = [&](const Value* value) {
    return value != nullptr && truth_of(*value).value_or(false);
  };
  for (const char* name : {"bf16", "fp16"})
    if (const Value* value = part(name); says(value))
      put_flag(flags, name, Value::boolean(true), *value);
  if (const Value* eight = part("fp8"); eight != nullptr && !word_of(*eight).empty()) {
    put_flag(flags, "fp8_format", *eight, *eight);
    if (const Value* recipe = part("fp8_recipe")) put_flag(flags, "fp8_recipe", *recipe, *recipe);
    if (const Value* gathered = part("fp8_param_gather"); says(gathered))
      put_flag(flags, "fp8_param_gather", Value::boolean(true), *gathered);
  }
  if (const Value* four = part("fp4"); four != nullptr && !word_of(*four).empty())
    reading.refuse(*four, "arithmetic in 4 bits", "it is not weighed yet");
  if (mixed != nullptr && mixed->find("grad_reduce_in_fp32") != nullptr)
    reduced = mixed->find("grad_reduce_in_fp32");
  if (reduced != nullptr && !truth_of(*reduced).value_or(true))
    put_flag(flags, "grad_reduce_in_bf16", Value::boolean(true), *reduced);
}

// torch's types, and their names in Megatron-LM's flags.
void translate_types(ConfigReader& reading, Value& flags) {
  for (const char* name :
       {"main_grads_dtype", "main_params_dtype", "exp_avg_dtype", "exp_avg_sq_dtype"})
    if (const Value* type = reading.take(fmt::format("optimizer.{}", name)))
      if (const auto word = ours_of("float32=fp32|bfloat16=bf16|float16=fp16|half=fp16|uint8=fp8|"
                                    "fp32=fp32|bf16=bf16|fp16=fp16|fp8=fp8",
                                    object_in(*type)))
        put_flag(flags, name, Value::string(*word), *type);
}

void translate_attention(ConfigReader& reading, Value& flags) {
  const Value* backend = reading.take("model.attention_backend");
  if (backend == nullptr) return;
  // AttnBackend, an enumeration: {_target_: ...AttnBackend, _call_: true, _args_: [1]}.
  const Value* number = backend->is_table() ? backend->find("_args_") : nullptr;
  if (number != nullptr && number->is_array() && number->items().size() == 1)
    number = &number->items().front();
  const std::string word = number != nullptr ? word_of(*number) : object_in(*backend);
  if (const auto name = ours_of("1=flash|2=fused|3=unfused|4=local|5=auto|flash=flash|fused=fused|"
                                "unfused=unfused|local=local|auto=auto",
                                word))
    put_flag(flags, "attention_backend", Value::string(*name), *backend);
}

// [0, 0, 0, 1, 1, ...] as Megatron-LM's flag has it: ([0]*3+[1]*58).
void translate_dense_layers(ConfigReader& reading, Value& flags) {
  const Value* frequency = reading.take("model.moe_layer_freq");
  if (frequency == nullptr) return;
  if (!frequency->is_array()) return put_flag(flags, "moe_layer_freq", *frequency, *frequency);
  const auto& layers = frequency->items();
  const auto sparse = std::find_if(layers.begin(), layers.end(),
                                   [](const Value& layer) { return word_of(layer) != "0"; });
  if (!std::all_of(sparse, layers.end(), [](const Value& layer) { return word_of(layer) == "1"; }))
    return reading.refuse(*frequency, "dense layers among those with experts are not read here",
                          "dense layers first are");
  put_flag(
      flags, "moe_layer_freq",
      Value::string(fmt::format("([0]*{}+[1]*{})", sparse - layers.begin(), layers.end() - sparse)),
      *frequency);
}

void translate_model(ConfigReader& reading, Value& flags) {
  translate_dense_layers(reading, flags);
  if (const Value* type = reading.take("tokenizer.tokenizer_type"))
    put_flag(flags, "tokenizer_type", *type, *type);
  if (const Value* model = reading.take("tokenizer.tokenizer_model"))
    put_flag(flags, "tokenizer_model", *model, *model);
  // GPTModelProvider has as many positions as tokens.
  if (const Value* length = reading.theirs().at("model.seq_length");
      length != nullptr && flags.member("num_layers") != nullptr)
    put_flag(flags, "max_position_embeddings", *length, *length);
  if (flags.member("num_layers") == nullptr)
    if (const Value* name = reading.take("model.hf_model_id")) say_model(reading, *name);
  if (const Value* teacher = reading.take("model.teacher"))
    reading.refuse(*teacher, "distillation: a second model runs beside this one",
                   "it is not weighed", "without model.teacher the student is weighed");
}

// peft/lora.py, peft/dora.py: LoRA of rank 32 beside Megatron's four kinds of linear layers.
void translate_adapter(ConfigReader& reading) {
  const Value* peft = reading.take("peft");
  if (peft == nullptr) return;
  const std::string kind = object_in(*peft);
  if (kind == "none") return;
  reading.say("adapter.method", kind == "DoRA" || kind == "dora" ? "dora" : "lora", *peft);
  const auto part = [&](const char* name) { return peft->is_table() ? peft->find(name) : nullptr; };
  if (const Value* rank = part("dim"); rank != nullptr && count_of(*rank))
    reading.say("adapter.rank", Value::integer(*count_of(*rank)), *rank);
  else
    reading.take_default("adapter.rank", Value::integer(32), "Megatron-Bridge's LoRA");
  for (const auto& [theirs, ours] :
       {std::pair{"alpha", "adapter.alpha"}, std::pair{"dropout", "adapter.dropout"}})
    if (const Value* value = part(theirs); value != nullptr && value->is_number())
      reading.say(ours, *value, *value);
  const Value* targets = part("target_modules");
  if (targets == nullptr || !targets->is_array())
    return reading.take_default("adapter.target_modules", Value::string("all-linear"),
                                "Megatron-Bridge's LoRA takes every linear layer");
  Value names = Value::array();
  for (const Value& target : targets->items()) {
    static constexpr std::pair<std::string_view, const char*> kNames[] = {
        {"linear_qkv", "q_proj"},   {"linear_qkv", "k_proj"},  {"linear_qkv", "v_proj"},
        {"linear_proj", "o_proj"},  {"linear_fc1", "up_proj"}, {"linear_fc1", "gate_proj"},
        {"linear_fc2", "down_proj"}};
    const std::string word = word_of(target);
    bool known = false;
    for (const auto& [theirs, ours] : kNames)
      if (theirs == word) {
        names.items().push_back(Value::string(ours));
        known = true;
      }
    if (!known)
      reading.refuse(target, fmt::format("no linear layer {}", word),
                     "linear_qkv, linear_proj, linear_fc1 and linear_fc2 are read");
  }
  if (names.items().size() == 7)
    reading.say("adapter.target_modules", "all-linear", *targets);
  else
    reading.say("adapter.target_modules", std::move(names), *targets);
}

// recipes/common.py: what overrides leave to the recipe that they belong to.
void say_recipe_defaults(ConfigReader& reading, const Value& flags) {
  const auto absent = [&](std::string_view flag) { return flags.find(flag) == nullptr; };
  for (const char* degree :
       {"tensor_model_parallel_size", "pipeline_model_parallel_size", "context_parallel_size"})
    if (absent(degree)) {
      const std::string_view name(degree);
      reading.take_default(fmt::format("parallel.{}", name.substr(0, name.find('_'))),
                           Value::integer(1), "the recipe may say another");
    }
  if (absent("use_distributed_optimizer") && absent("use_megatron_fsdp") &&
      absent("use_torch_fsdp2"))
    reading.take_default("parallel.zero_stage", Value::integer(1),
                         "Megatron-Bridge's recipes divide the optimizer");
  for (const char* dropout : {"hidden_dropout", "attention_dropout"})
    if (absent(dropout))
      reading.take_default(fmt::format("training.{}", dropout), Value::number(0.0),
                           "Megatron-Bridge's recipes drop nothing");
  if (absent("micro_batch_size"))
    reading.lacks("training.micro_batch", "the recipe's, unless train.micro_batch_size says it");
  if (absent("seq_length"))
    reading.lacks("training.sequence_length", "the recipe's, unless dataset.seq_length says it");
  if (absent("num_layers")) reading.lacks("model", "the recipe names it, in Python: --model");
}

}  // namespace

void put_flag(Value& flags, std::string_view name, Value value, const Value& at) {
  value.set_mark(at.mark());
  if (flags.member(name) == nullptr)
    flags.members().push_back({std::string(name), at.mark(), std::move(value)});
}

void list_added_flags(Imported& into) {
  for (const Value::Member& section : into.run.members()) {
    if (!section.value.is_table() || section.key == "carried") continue;
    for (const Value::Member& member : section.value.members()) {
      const Place place = member.value.place();
      const std::string key = section.key + "." + member.key;
      if (place.line != 0 || !place.source.starts_with("<") || !place.source.ends_with(">") ||
          std::any_of(into.unsaid.begin(), into.unsaid.end(),
                      [&](const Unsaid& unsaid) { return unsaid.key == key; }))
        continue;
      into.unsaid.push_back(
          {key, word_of(member.value), place.source.substr(1, place.source.size() - 2)});
    }
  }
}

void translate_bridge(ConfigReader& reading, Value& flags) {
  const bool whole = reading.take("_target_") != nullptr;
  translate_activation(reading, flags);
  translate_precision(reading, flags, whole);
  translate_types(reading, flags);
  translate_attention(reading, flags);
  translate_model(reading, flags);
  translate_adapter(reading);
  if (!whole) say_recipe_defaults(reading, flags);
}

}  // namespace steelyard
