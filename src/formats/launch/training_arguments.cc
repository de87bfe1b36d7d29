// Hugging Face's TrainingArguments and TRL's SFTConfig and ModelConfig, as flags of a script or as TRL's YAML.
// Names and defaults: transformers/training_args.py, trl/trainer/sft_config.py, trl/trainer/model_config.py.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "formats/launch/formats.h"
#include "formats/launch/fsdp_keys.h"
#include "formats/launch/hugging_face.h"
#include "formats/launch/trl_methods.h"
#include "formats/launch/unweighed_keys.h"

namespace steelyard {
namespace {

constexpr Row kBatch[] = {
    {"per_device_train_batch_size", "training.micro_batch", "", "", "8"},
    {"gradient_accumulation_steps", "training.gradient_accumulation", "", "", "1"},
    {"max_length", "training.sequence_length", "", "max_seq_length|block_size|model_max_length"},
    {"torch_compile", "training.compile"},
};

constexpr Row kAdapter[] = {
    {"lora_r", "adapter.rank"},
    {"lora_alpha", "adapter.alpha"},
    {"lora_dropout", "adapter.dropout"},
    {"use_bnb_nested_quant", "adapter.double_quantization"},
};

// A script's own adapters since TRL 1.0: what is frozen stays as it was loaded, adapters beside few bits become bf16
// (trainer/sft_trainer.py). A load in fp32, the default of its ModelConfig, leaves the frozen rest in fp32.
void read_types_beside_few_bits(ConfigReader& reading, bool few) {
  if (!few) return;
  const Value* load = reading.theirs().find("dtype");
  if (load == nullptr) load = reading.theirs().find("torch_dtype");
  const bool narrow = load != nullptr && word_of(*load) != "float32";
  reading.take_default(
      "adapter.upcast", Value::boolean(!narrow),
      narrow ? "TRL leaves what is frozen as it was loaded" : "TRL loads in float32 unless told");
  reading.take_default("adapter.type", Value::string("bf16"),
                       "TRL makes bf16 of adapters beside weights of few bits");
}

void read_adapter(ConfigReader& reading) {
  const Value* peft = reading.on("use_peft");
  const Value* four = reading.on("load_in_4bit");
  const Value* eight = reading.on("load_in_8bit");
  if (peft == nullptr) {
    if (four != nullptr)
      reading.warn(*four, "weights of 4 bits and no adapter",
                   "only an adapter can be trained on them");
    return;
  }
  const Value* dora = reading.on("use_dora");
  reading.say("adapter.method", dora != nullptr ? "dora" : "lora", dora != nullptr ? *dora : *peft);
  reading.rows(kAdapter);
  if (reading.theirs().at("lora_r") == nullptr)
    reading.take_default("adapter.rank", Value::integer(16), "TRL's default rank");
  if (reading.theirs().at("lora_target_modules") != nullptr)
    read_targets(reading, "lora_target_modules", "all-linear");
  else
    reading.lacks("adapter.target_modules", "PEFT chooses the modules by the model's family");
  if (const Value* saved = reading.take("lora_modules_to_save"); saved != nullptr) {
    Value list = Value::array(words_of(saved));
    list.set_mark(saved->mark());
    if (!list.items().empty()) reading.say("adapter.saved_modules", std::move(list), *saved);
  }
  read_types_beside_few_bits(reading, four != nullptr || eight != nullptr);
  // Of neither kind and in no type of arithmetic are 4 bits more or fewer.
  for (const char* key : {"bnb_4bit_compute_dtype", "bnb_4bit_quant_type"}) reading.take(key);
  if (four != nullptr)
    reading.say("adapter.base", "nf4", *four);
  else if (eight != nullptr)
    reading.say("adapter.base", "int8", *eight);
}

void write_adapter(ConfigWriter& writing) {
  writing.take("training.unweighed");
  const std::string method = writing.word("adapter.method");
  take_trl_defaults(writing);
  if (method.empty()) return;
  writing.put("use_peft", Value::boolean(true), "an adapter is trained beside frozen weights");
  if (method == "dora") writing.put("use_dora", Value::boolean(true));
  writing.rows(kAdapter);
  write_targets(writing, "lora_target_modules", "all-linear");
  const std::string base = writing.word("adapter.base");
  if (base == "nf4") writing.put("load_in_4bit", Value::boolean(true), "frozen weights of 4 bits");
  if (base == "int8") writing.put("load_in_8bit", Value::boolean(true), "frozen weights of 8 bits");
}

// Keys that one of TRL's configurations alone has: GRPOConfig's, and what DPOConfig, KTOConfig and their like share.
void read_method_by_keys(ConfigReader& reading) {
  if (reading.has("training.method")) return;
  static constexpr std::pair<std::string_view, std::string_view> kKeys[] = {
      {"reward_funcs", "grpo"},
      {"num_generations", "grpo"},
      {"reward_model_path", "ppo"},
      {"desirable_weight", "kto"},
      {"undesirable_weight", "kto"},
      {"center_rewards_coefficient", "rm"},
      {"beta", "dpo"},
      {"max_prompt_length", "dpo"},
      {"dpo_beta", "dpo"},
      {"precompute_ref_log_probs", "dpo"},
      {"ref_model_init_kwargs", "dpo"}};
  for (const auto& [key, method] : kKeys)
    if (const Value* value = reading.theirs().find(key); value != nullptr && !value->is_null())
      return reading.say("training.method", method, *value);
}

// A new model has its config's own vocabulary; run_clm.py then resizes it to the tokenizer, in some releases always, in others where that
// is larger. GPT-2 with GPT-2's tokenizer is the same either way.
void say_own_vocabulary(ConfigReader& reading, const std::string& type, Value& model) {
  constexpr std::int64_t kOfGpt2 = 50257;
  constexpr std::string_view kTokenizers[] = {"gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl",
                                              "openai-community/gpt2"};
  const Value* tokenizer = reading.theirs().find("tokenizer_name");
  if (type != "gpt2" || model.member("vocab_size") != nullptr || tokenizer == nullptr) return;
  if (std::find(std::begin(kTokenizers), std::end(kTokenizers), word_of(*tokenizer)) ==
      std::end(kTokenizers))
    return;
  model.members().push_back({"vocab_size", tokenizer->mark(), Value::integer(kOfGpt2)});
  model.members().back().value.set_mark(tokenizer->mark());
  reading.into().unsaid.push_back({"model.vocab_size", std::to_string(kOfGpt2),
                                   "GPT2Config's own, and as many as the tokenizer has"});
}

// A model without a checkpoint: run_clm.py --model_type gpt2 --config_overrides n_embd=1024,n_head=16,n_layer=24.
void read_new_model(ConfigReader& reading) {
  const Value* type = reading.theirs().find("model_type");
  const Value* sizes = reading.theirs().find("config_overrides");
  if (type == nullptr || sizes == nullptr || !type->is_string() || !sizes->is_string()) return;
  Value model = Value::table();
  model.set_mark(sizes->mark());
  model.members().push_back({"model_type", type->mark(), *type});
  for (const Value& pair : words_of(sizes)) {
    const std::string word = word_of(pair);
    const std::size_t sign = word.find('=');
    const Value number = sign == std::string::npos ? Value() : typed_value(word.substr(sign + 1));
    if (word.starts_with("use_cache=")) continue;
    if (word.starts_with("gradient_checkpointing=") && number.is_bool()) {
      reading.say("recompute.mode", number.as_bool() ? "full" : "none", *sizes);
      continue;
    }
    if (!number.is_integer() || model.member(word.substr(0, sign)) != nullptr)
      return reading.lacks("model", fmt::format("config_overrides has {}", word));
    model.members().push_back({word.substr(0, sign), sizes->mark(), number});
    model.members().back().value.set_mark(sizes->mark());
  }
  for (const char* key : {"model_type", "config_overrides"}) reading.take(key);
  say_own_vocabulary(reading, word_of(*type), model);
  reading.say("model", std::move(model), *sizes);
}

void read_liger(ConfigReader& reading) {
  const Value* liger = reading.on("use_liger_kernel");
  if (liger == nullptr) return;
  const std::optional<bool> fused = reading.truth("liger_kernel_config.fused_linear_cross_entropy");
  const std::optional<bool> norms = reading.truth("liger_kernel_config.rms_norm");
  if (fused.value_or(true)) reading.say("training.loss", "fused-linear", *liger);
  if (norms.value_or(true)) reading.say("training.kernels", "liger", *liger);
}

void write_liger(ConfigWriter& writing) {
  const bool loss = writing.look_word("training.loss") == "fused-linear";
  const bool kernels = writing.word("training.kernels") == "liger";
  if (loss) writing.take("training.loss");
  if (!loss && !kernels) return;
  writing.put("use_liger_kernel", Value::boolean(true), "Liger's kernels");
  if (loss && kernels) return;
  writing.put("liger_kernel_config.fused_linear_cross_entropy", Value::boolean(loss));
  writing.put("liger_kernel_config.rms_norm", Value::boolean(kernels));
  writing.put("liger_kernel_config.swiglu", Value::boolean(kernels));
  writing.put("liger_kernel_config.rope", Value::boolean(kernels));
}

}  // namespace

void read_hugging_face(const Value& document, Launch& launch, std::string_view format) {
  ConfigReader reading(document, format, launch.into);
  launch.hugging_face = true;
  if (const Value* model = reading.take("model_name_or_path")) say_model(reading, *model);
  if (!reading.has("model")) read_new_model(reading);
  read_method_by_keys(reading);
  read_trl_method(reading);
  const bool trl =
      launch.trl || document.at("max_length") != nullptr || document.at("use_peft") != nullptr;
  if (trl && document.at("per_device_train_batch_size") == nullptr)
    reading.take_default("training.micro_batch", Value::integer(8), "Trainer's default");
  reading.rows(kBatch);
  if (reading.said("training.sequence_length") == nullptr &&
      !reading.is_asked("training.sequence_length")) {
    if (trl)
      reading.take_default("training.sequence_length", Value::integer(1024), "SFTConfig's default");
    else
      reading.lacks("training.sequence_length", "the script and its data decide");
  }
  const Value* again = reading.take("gradient_checkpointing");
  if (again != nullptr) {
    if (const auto truth = truth_of(*again))
      reading.say("recompute.mode", *truth ? "full" : "none", *again);
  } else if (trl) {
    reading.take_default("recompute.mode", Value::string("full"),
                         "SFTConfig checkpoints by default");
  }
  if (const Value* offload = reading.on("activation_offloading"))
    reading.say("offload.activations", "cpu", *offload);
  if (const auto reentrant = reading.truth("gradient_checkpointing_kwargs.use_reentrant"))
    reading.say("recompute.reentrant", Value::boolean(*reentrant),
                *document.at("gradient_checkpointing_kwargs.use_reentrant"));
  warn_of_compile_mode(reading, "torch_compile_mode");
  if (document.at("optim") != nullptr)
    read_optim(reading, "optim");
  else {
    reading.take_default("training.optimizer", Value::string("adamw"), "Trainer's default");
    reading.take_default("training.optimizer_form", Value::string("fused"), "Trainer's default");
  }
  read_clip(reading, "max_grad_norm", true);
  read_attention(reading, "attn_implementation");
  read_liger(reading);
  // Packed or not, no sequence is longer.
  if (trl) reading.take("packing");
  const Value* method = reading.said("training.method");
  const std::string trains = method == nullptr ? "sft" : word_of(*method);
  if (trl && (trains == "sft" || trains == "pretrain" || trains == "dpo"))
    reading.take_default("training.loss", Value::string("plain"),
                         "whole logits; TRL's SFT since 1.15 makes them in tiles, and needs less");
  read_adapter(reading);
  for (const char* word : {"bf16", "fp16"})
    if (const Value* value = reading.on(word)) {
      launch.mixed = Value::string(word);
      launch.mixed.set_mark(value->mark());
    }
  // SFTConfig and its siblings: bf16 unless fp16 is said (trl/trainer/sft_config.py 0.24); said false, neither.
  if (launch.trl && launch.mixed.is_null() && document.at("bf16") == nullptr) {
    launch.mixed = Value::string("bf16");
    launch.mixed.set_mark(document.mark());
  }
  for (const char* word : {"dtype", "torch_dtype"})
    if (const Value* value = reading.take(word)) launch.load = *value;
  reading.unweighed(unweighed_of_trainer());
  read_fsdp_keys(reading, launch);
  read_sync(reading);
  read_deepspeed_key(reading, launch, "deepspeed");
  reading.carry_rest();
}

void write_hugging_face(ConfigWriter& writing) {
  const std::string model = model_written(writing);
  if (!model.empty()) writing.put("model_name_or_path", model);
  // Said by micro-batch, accumulation and ranks together.
  writing.take("training.global_batch");
  writing.take("parallel.data");
  writing.rows(kBatch);
  const std::string mode = writing.word("recompute.mode", "none");
  if (mode == "full" || mode == "none")
    writing.put("gradient_checkpointing", Value::boolean(mode == "full"),
                "what backward computes again");
  else
    writing.refuse("recompute.mode",
                   fmt::format("Trainer recomputes every layer or none, not {}", mode));
  if (const Value* reentrant = writing.take("recompute.reentrant"))
    writing.put("gradient_checkpointing_kwargs.use_reentrant", *reentrant);
  write_optim(writing, "optim");
  write_clip(writing, "max_grad_norm");
  write_attention(writing, "attn_implementation", ContextBy::kSdpa);
  write_liger(writing);
  write_adapter(writing);
  const HalfPrecision half = half_precision(writing);
  if (half.mixed != "no") writing.put(half.mixed, Value::boolean(true), "arithmetic in 16 bits");
  writing.put("dtype", half.load, "in which weights are loaded");
  // The usual code, and the usual kind of training.
  if (writing.look_word("implementation") == "transformers") writing.take("implementation");
  writing.take("training.method");
  writing.take("training.dropout");
  const std::string engine = writing.look_word("engine");
  if (engine == "fsdp1" || engine == "fsdp2") write_sync(writing);
}

}  // namespace steelyard
