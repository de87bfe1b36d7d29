// LLaMA-Factory's YAML: Trainer's keys and its own, src/llamafactory/hparams/*.py.
#include <fmt/format.h>

#include "formats/launch/arguments.h"
#include "formats/launch/formats.h"
#include "formats/launch/fsdp_keys.h"
#include "formats/launch/hugging_face.h"
#include "formats/launch/llama_factory.h"
#include "formats/launch/unweighed_keys.h"

namespace steelyard {
namespace {

constexpr Row kRows[] = {
    {"cutoff_len", "training.sequence_length", "", "", "2048"},
    {"per_device_train_batch_size", "training.micro_batch", "", "", "8"},
    {"gradient_accumulation_steps", "training.gradient_accumulation", "", "", "1"},
    {"torch_compile", "training.compile"},
};

constexpr Row kAdapter[] = {
    {"lora_rank", "adapter.rank", "", "", "8"},
    {"lora_alpha", "adapter.alpha"},
    {"lora_dropout", "adapter.dropout"},
};

}  // namespace

void refuse_freezing(ConfigReader& reading, const Value& at) {
  reading.unweighed(at, "finetuning_type freeze",
                    "layers are chosen by number: training.frozen of the run file lists patterns");
}

void read_quantised_base(ConfigReader& reading, const std::string& bits, const Value& at,
                         std::string_view double_quantisation) {
  if (bits != "4" && bits != "8")
    return reading.unweighed(at, fmt::format("weights of {} bits", bits), "4 and 8 are weighed");
  reading.say("adapter.base", bits == "4" ? "nf4" : "int8", at);
  if (bits == "8") return;
  if (const Value* twice = reading.take(double_quantisation))
    reading.say("adapter.double_quantization", *twice, *twice);
  else
    reading.take_default("adapter.double_quantization", Value::boolean(true),
                         "LLaMA-Factory quantises the constants too");
}

namespace {

void read_adapter(ConfigReader& reading) {
  const Value* tuning = reading.take("finetuning_type");
  const std::string kind = tuning == nullptr ? "lora" : word_of(*tuning);
  if (kind == "full") return;
  if (kind == "freeze") return refuse_freezing(reading, *tuning);
  if (kind != "lora")
    return reading.unweighed(*tuning, fmt::format("finetuning_type {}", kind),
                             "lora and full are weighed");
  const Value* dora = reading.on("use_dora");
  if (tuning == nullptr)
    reading.take_default("adapter.method", Value::string("lora"),
                         "LLaMA-Factory trains a LoRA unless told");
  else
    reading.say("adapter.method", dora != nullptr ? "dora" : "lora",
                dora != nullptr ? *dora : *tuning);
  reading.rows(kAdapter);
  if (reading.theirs().find("lora_target") != nullptr)
    read_targets(reading, "lora_target", "all");
  else
    reading.take_default("adapter.target_modules", Value::string("all-linear"),
                         "LLaMA-Factory's lora_target is all");
  if (const Value* saved = reading.take("additional_target");
      saved != nullptr && !word_of(*saved).empty()) {
    Value list = Value::array(words_of(saved));
    list.set_mark(saved->mark());
    reading.say("adapter.saved_modules", std::move(list), *saved);
  }
  if (const Value* bits = reading.take("quantization_bit")) {
    const Value* method = reading.take("quantization_method");
    if (method != nullptr && word_of(*method) != "bnb" && word_of(*method) != "bitsandbytes")
      reading.unweighed(*method, fmt::format("quantization_method {}", word_of(*method)),
                        "weights of another quantisation than bitsandbytes'");
    read_quantised_base(reading, word_of(*bits), *bits, "double_quantization");
    // model/model_utils/checkpointing.py, prepare_model_for_training: norms alone, and when told.
    reading.take_default("adapter.upcast", Value::boolean(false),
                         "LLaMA-Factory leaves norms and embedding in 16 bits");
  }
}

// Weights are loaded in 16 bits; what is trained is widened to fp32, except in pure_bf16 (model/adapter.py). Without bf16 and
// fp16 nothing is cast, and an adapter's frozen base keeps the checkpoint's type.
void read_precision(ConfigReader& reading, Launch& launch) {
  for (const char* word : {"bf16", "fp16"})
    if (const Value* value = reading.on(word)) {
      launch.mixed = Value::string(word);
      launch.mixed.set_mark(value->mark());
    }
  if (const Value* pure = reading.on("pure_bf16")) {
    launch.load = Value::string("bfloat16");
    launch.load.set_mark(pure->mark());
    launch.mixed = Value::string("no");
    launch.mixed.set_mark(pure->mark());
  }
  const Value* file = reading.theirs().find("deepspeed");
  if (launch.mixed.is_null() && reading.has("adapter.method") && file == nullptr)
    reading.take_default("training.precision", Value::string("bf16-pure"),
                         "neither bf16 nor fp16: the checkpoint's type, taken as bf16");
}

void read_keys(const Value& document, Launch& launch, std::string_view label) {
  ConfigReader reading(document, "llama-factory", launch.into);
  launch.into.formats.emplace_back(label);
  launch.hugging_face = true;
  if (const Value* model = reading.take("model_name_or_path"))
    say_model(reading, *model);
  else
    reading.refuse(document, "no model_name_or_path", "LLaMA-Factory needs one");
  reading.rows(kRows);
  if (const Value* stage = reading.take("stage"))
    if (const auto method =
            ours_of("pt=pretrain|sft=sft|rm=rm|ppo=ppo|dpo=dpo|orpo=orpo|simpo=cpo|kto=kto",
                    word_of(*stage))) {
      reading.say("training.method", *method, *stage);
      refuse_preferences_of(reading, "LLaMA-Factory", *stage);
    }
  const Value* off = reading.take("disable_gradient_checkpointing");
  if (off != nullptr)
    reading.say("recompute.mode", truth_of(*off).value_or(false) ? "none" : "full", *off);
  else
    reading.take_default("recompute.mode", Value::string("full"),
                         "LLaMA-Factory checkpoints unless told not to");
  reading.take("gradient_checkpointing");
  if (const Value* reentrant = reading.take("use_reentrant_gc"))
    reading.say("recompute.reentrant", *reentrant, *reentrant);
  read_adapter(reading);
  bool exotic = false;
  for (const auto& [key, ours] :
       {std::pair{"use_galore", "galore"}, std::pair{"use_apollo", "apollo"},
        std::pair{"use_adam_mini", "adam-mini"}, std::pair{"use_muon", "muon"}})
    if (const Value* value = reading.on(key)) {
      reading.say("training.optimizer", ours, *value);
      exotic = true;
    }
  warn_of_compile_mode(reading, "torch_compile_mode");
  if (document.find("optim") != nullptr && !exotic) {
    read_optim(reading, "optim");
  } else if (!exotic) {
    reading.take_default("training.optimizer", Value::string("adamw"), "Trainer's default");
    reading.take_default("training.optimizer_form", Value::string("fused"), "Trainer's default");
  }
  read_clip(reading, "max_grad_norm", true);
  // A switch before 0.7, a name since.
  const Value* attention = document.find("flash_attn");
  if (attention != nullptr && truth_of(*attention)) {
    if (const Value* on = reading.on("flash_attn")) reading.say("training.attention", "flash", *on);
  } else {
    read_attention(reading, "flash_attn");
  }
  if (const Value* liger = reading.on("enable_liger_kernel")) {
    reading.say("training.loss", "fused-linear", *liger);
    reading.say("training.kernels", "liger", *liger);
  }
  read_precision(reading, launch);
  if (const Value* unsloth = reading.on("use_unsloth"))
    reading.say("training.kernels", "unsloth", *unsloth);
  reading.unweighed(unweighed_of_llama_factory());
  read_fsdp_keys(reading, launch);
  read_deepspeed_key(reading, launch, "deepspeed");
  reading.carry_rest();
}

}  // namespace

void read_llama_factory(const Value& document, Launch& launch) {
  read_keys(document, launch, "LLaMA-Factory YAML");
}

bool read_llama_factory_flags(const Value& program, std::span<const Value> words, Launch& launch) {
  Value flags = read_arguments(words).flags;
  flags.set_mark(program.mark());
  const Value* predict = flags.find("do_predict");
  const Value* train = flags.find("do_train");
  if (predict != nullptr && train == nullptr) return false;
  if (program.as_string().find("train_bash") != std::string::npos) {
    const Value none = Value::table();
    ConfigReader(none, "llama-factory", launch.into)
        .take_default("training.sequence_length", Value::integer(1024),
                      "cutoff_len of LLaMA-Factory before 0.7");
  }
  read_keys(flags, launch, "LLaMA-Factory arguments");
  return true;
}

void write_llama_factory(ConfigWriter& writing) {
  const std::string model = model_written(writing);
  if (!model.empty()) writing.put("model_name_or_path", model);
  const std::string engine = writing.word("engine", "ddp");
  if (engine == "megatron" || engine == "nanotron")
    writing.refuse("engine", fmt::format("LLaMA-Factory is not written with {}", engine));
  writing.put(
      "stage",
      theirs_of("pt=pretrain|sft=sft", writing.word("training.method", "sft")).value_or("sft"));
  writing.put("do_train", Value::boolean(true));
  writing.take("training.global_batch");
  writing.take("parallel.data");
  writing.rows(kRows);
  const std::string mode = writing.word("recompute.mode", "none");
  if (mode != "none" && mode != "full")
    writing.refuse("recompute.mode",
                   fmt::format("LLaMA-Factory recomputes every layer or none, not {}", mode));
  writing.put("disable_gradient_checkpointing", Value::boolean(mode != "full"),
              "what backward computes again");
  if (const Value* reentrant = writing.take("recompute.reentrant"))
    writing.put("use_reentrant_gc", *reentrant);
  const std::string method = writing.word("adapter.method");
  take_peft_defaults(writing);
  writing.put("finetuning_type", method.empty() ? "full" : "lora",
              "full, or an adapter beside frozen weights");
  if (!method.empty()) {
    if (method == "dora") writing.put("use_dora", Value::boolean(true));
    writing.rows(kAdapter);
    const Value* targets = writing.take("adapter.target_modules");
    if (targets != nullptr && targets->is_array()) {
      std::string list;
      for (const Value& item : targets->items()) list += (list.empty() ? "" : ",") + word_of(item);
      writing.put("lora_target", list);
    } else {
      writing.put("lora_target", "all");
    }
    const std::string base = writing.word("adapter.base");
    if (base == "nf4" || base == "int8") {
      writing.put("quantization_bit", Value::integer(base == "nf4" ? 4 : 8),
                  "bits of the frozen weights");
      writing.put("quantization_method", "bnb");
      if (base == "nf4")
        writing.put("double_quantization",
                    Value::boolean(writing.truth("adapter.double_quantization", false)));
    }
  }
  const std::string optimizer = writing.look_word("training.optimizer");
  if (optimizer == "adam-mini" || optimizer == "muon") {
    writing.take("training.optimizer");
    writing.put(optimizer == "muon" ? "use_muon" : "use_adam_mini", Value::boolean(true));
  } else {
    write_optim(writing, "optim");
  }
  write_clip(writing, "max_grad_norm");
  const std::string attention = writing.word("training.attention");
  if (!attention.empty())
    writing.put("flash_attn", attention == "flash"   ? "fa2"
                              : attention == "eager" ? "disabled"
                                                     : "sdpa");
  const std::string loss = writing.word("training.loss", "plain");
  const bool liger = writing.look_word("training.kernels") == "liger";
  if (writing.word("training.kernels") == "unsloth")
    writing.put("use_unsloth", Value::boolean(true));
  writing.take("training.unweighed");
  if (liger != (loss == "fused-linear"))
    writing.refuse("training.loss", "LLaMA-Factory takes all of Liger's kernels or none",
                   "loss = \"fused-linear\" and kernels = \"liger\" together");
  else if (liger)
    writing.put("enable_liger_kernel", Value::boolean(true));
  const HalfPrecision half = half_precision(writing);
  if (half.load == "bfloat16")
    writing.put("pure_bf16", Value::boolean(true), "weights and states in bf16");
  if (half.mixed != "no") writing.put(half.mixed, Value::boolean(true), "arithmetic in 16 bits");
  write_fsdp_keys(writing);
  if (engine == "fsdp1" || engine == "fsdp2") writing.take("wrap.policy");
  if (engine == "deepspeed") {
    writing.put("deepspeed", "ds_config.json", "beside this file");
    for (const char* key :
         {"parallel.zero_stage", "offload.optimizer", "offload.parameters", "buckets.reduce",
          "buckets.gather", "buckets.prefetch", "buckets.persistence", "buckets.live",
          "buckets.reuse", "buckets.sub_group", "overlap.reduce"})
      writing.take(key);
  }
  writing.take("checkpoint.save");
  writing.take("training.dropout");
  if (writing.look_word("implementation") == "transformers") writing.take("implementation");
  writing.fill_in("dataset", Value::string("alpaca_en_demo"));
  writing.fill_in("template", Value::string("default"));
  writing.fill_in("output_dir", Value::string("saves/run"));
  writing.fill_in("learning_rate", Value::number(0.00001));
  writing.fill_in("num_train_epochs", Value::number(1.0), {"max_steps"});
}

}  // namespace steelyard
