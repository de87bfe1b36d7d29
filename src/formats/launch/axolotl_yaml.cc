// Axolotl's YAML: axolotl/utils/schemas, utils/config/__init__.py.
#include <fmt/format.h>

#include <algorithm>

#include "formats/launch/axolotl_precision.h"
#include "formats/launch/formats.h"
#include "formats/launch/fsdp_keys.h"
#include "formats/launch/hugging_face.h"
#include "formats/launch/unweighed_keys.h"

namespace steelyard {
namespace {

constexpr Row kRows[] = {
    {"sequence_len", "training.sequence_length", "", "", "512"},
    {"micro_batch_size", "training.micro_batch"},
    {"gradient_accumulation_steps", "training.gradient_accumulation"},
    {"torch_compile", "training.compile"},
    {"dp_replicate_size", "parallel.replicate"},
    {"tensor_parallel_size", "parallel.tensor"},
    {"context_parallel_size", "parallel.context", "", "sequence_parallel_degree"},
    {"expert_parallel_size", "parallel.expert"},
};

constexpr Row kAdapter[] = {
    {"lora_r", "adapter.rank"},
    {"lora_alpha", "adapter.alpha"},
    {"lora_dropout", "adapter.dropout"},
};

// Whether one of the plugins' names ends so.
const Value* plugin(ConfigReader& reading, std::string_view name) {
  const Value* plugins = reading.theirs().find("plugins");
  if (plugins == nullptr || !plugins->is_array()) return nullptr;
  for (const Value& one : plugins->items())
    if (one.is_string() && one.as_string().ends_with(name)) return &one;
  return nullptr;
}

// Plugins whose keys are all read, or refused by name where they change what is held (integrations/ of 0.19). Any other
// may change anything.
void take_known_plugins(ConfigReader& reading) {
  static constexpr std::string_view kKnown[] = {"LigerPlugin",      "CutCrossEntropyPlugin",
                                                "KernelsPlugin",    "SpectrumPlugin",
                                                "SwanLabPlugin",    "KDPlugin",
                                                "LMEvalPlugin",     "DiffusionPlugin",
                                                "DenseMixerPlugin", "LLMCompressorPlugin"};
  const Value* plugins = reading.theirs().find("plugins");
  if (plugins == nullptr || !plugins->is_array()) return;
  bool all_known = true;
  for (const Value& one : plugins->items()) {
    const std::string name = word_of(one);
    if (std::any_of(std::begin(kKnown), std::end(kKnown),
                    [&](std::string_view known) { return name.ends_with(known); }))
      continue;
    all_known = false;
    reading.unweighed(one, name.substr(name.rfind('.') + 1), "a plugin that is not known here");
  }
  if (all_known) reading.take("plugins");
}

// The plugin alone is enough: its switch is on unless it is turned off (integrations/cut_cross_entropy/args.py).
void read_cut_loss(ConfigReader& reading) {
  const Value* loaded = plugin(reading, "CutCrossEntropyPlugin");
  const Value* said = reading.take("cut_cross_entropy");
  const bool off = said != nullptr && !truth_of(*said).value_or(true);
  if (off) return;
  if (loaded != nullptr)
    reading.say("training.loss", "cut", said != nullptr ? *said : *loaded);
  else if (said != nullptr)
    reading.warn(*said, "cut_cross_entropy without its plugin", "Axolotl does not read it: plain",
                 "plugins: axolotl.integrations.cut_cross_entropy.CutCrossEntropyPlugin");
}

void read_adapter(ConfigReader& reading) {
  const Value* adapter = reading.take("adapter");
  const Value* four = reading.on("load_in_4bit");
  const Value* eight = reading.on("load_in_8bit");
  if (adapter == nullptr || word_of(*adapter).empty()) {
    if (four != nullptr || eight != nullptr)
      reading.warn(four != nullptr ? *four : *eight, "weights of few bits and no adapter",
                   "only an adapter can be trained on them: weighed in 16");
    return;
  }
  const std::string kind = word_of(*adapter);
  if (kind != "lora" && kind != "qlora")
    return reading.refuse(*adapter, fmt::format("the adapter {} is not read", kind),
                          "lora and qlora are");
  const Value* dora = reading.on("peft_use_dora");
  reading.say("adapter.method", dora != nullptr ? "dora" : "lora",
              dora != nullptr ? *dora : *adapter);
  reading.rows(kAdapter);
  if (const Value* linear = reading.on("lora_target_linear"))
    reading.say("adapter.target_modules", "all-linear", *linear);
  else if (reading.theirs().find("lora_target_modules") != nullptr)
    read_targets(reading, "lora_target_modules", "all-linear");
  else
    reading.lacks("adapter.target_modules", "PEFT chooses the modules by the model's family");
  if (const Value* saved = reading.take("lora_modules_to_save");
      saved != nullptr && !(saved->is_array() && saved->items().empty()))
    reading.say("adapter.saved_modules", *saved, *saved);
  if (const Value* experts = reading.on("quantize_moe_experts"))
    reading.say("adapter.quantize_experts", Value::boolean(true), *experts);
  // prepare_model_for_kbit_training makes fp32 of norms, and what Axolotl does behind it makes 16 bits of them, of the embedding
  // and the head again (loaders/model.py, _convert_embedding_modules_dtype).
  if (four != nullptr || eight != nullptr || kind == "qlora")
    reading.take_default("adapter.upcast", Value::boolean(false),
                         "Axolotl casts norms, embedding and head back to 16 bits");
  if (four != nullptr || kind == "qlora") {
    reading.say("adapter.base", "nf4", four != nullptr ? *four : *adapter);
    if (const Value* twice = reading.take("bnb_config_kwargs.bnb_4bit_use_double_quant"))
      reading.say("adapter.double_quantization", *twice, *twice);
    else
      reading.take_default("adapter.double_quantization", Value::boolean(true),
                           "Axolotl quantises the constants too");
  } else if (eight != nullptr) {
    reading.say("adapter.base", "int8", *eight);
  }
}

void read_fsdp(ConfigReader& reading) {
  // An empty list and an empty table are false to Python: no FSDP (core/builders/base.py).
  const auto says_nothing = [](const Value* value) {
    return value == nullptr || value->is_null() ||
           (value->is_array()   ? value->items().empty()
            : value->is_table() ? value->members().empty()
                                : word_of(*value).empty() || word_of(*value) == "false");
  };
  const Value* config = reading.theirs().find("fsdp_config");
  const Value* words = reading.take("fsdp");
  if (says_nothing(config) && says_nothing(words)) {
    reading.take("fsdp_config");
    return;
  }
  const FsdpKey key = [&](std::string_view name) -> const Value* {
    if (const Value* value = reading.take(fmt::format("fsdp_config.{}", name))) return value;
    return reading.take(fmt::format("fsdp_config.fsdp_{}", name));
  };
  const Value* version = reading.take("fsdp_version");
  if (version == nullptr) version = key("version");
  const bool second = version != nullptr && word_of(*version) == "2";
  if (version == nullptr)
    reading.take_default("engine", Value::string("fsdp1"), "Axolotl takes FSDP version 1");
  else
    reading.say("engine", second ? "fsdp2" : "fsdp1", *version);
  const Value* reshard = key("reshard_after_forward");
  if (reshard != nullptr && truth_of(*reshard))
    reading.say("parallel.zero_stage", Value::integer(*truth_of(*reshard) ? 3 : 2), *reshard);
  else
    reading.take_default("parallel.zero_stage", Value::integer(3), "full sharding unless said");
  read_fsdp_switches(reading, key);
  if (const Value* policy = key("auto_wrap_policy");
      policy != nullptr && word_of(*policy) == "TRANSFORMER_BASED_WRAP")
    reading.say("wrap.policy", "block", *policy);
}

}  // namespace

void read_axolotl(const Value& document, Launch& launch) {
  ConfigReader reading(document, "axolotl", launch.into);
  launch.into.formats.emplace_back("Axolotl YAML");
  launch.hugging_face = true;
  if (const Value* model = reading.take("base_model"))
    say_model(reading, *model);
  else
    reading.refuse(document, "no base_model", "Axolotl needs one");
  reading.rows(kRows);
  // The batch of a data rank; two of the three are given.
  const auto batch = reading.count("batch_size");
  const auto micro = reading.said("training.micro_batch");
  if (batch && micro != nullptr && !reading.has("training.gradient_accumulation")) {
    const std::int64_t each = count_of(*micro).value_or(1);
    if (each > 0 && *batch % each == 0)
      reading.say("training.gradient_accumulation", Value::integer(*batch / each),
                  *document.find("batch_size"));
    else
      reading.refuse(*document.find("batch_size"),
                     "batch_size is not a multiple of micro_batch_size", "");
  }
  if (micro == nullptr) reading.lacks("training.micro_batch", "Axolotl needs micro_batch_size");
  read_adapter(reading);
  read_fsdp(reading);
  if (document.find("optimizer") != nullptr) {
    read_optim(reading, "optimizer");
  } else {
    reading.take_default("training.optimizer", Value::string("adamw"), "Axolotl's default");
    reading.take_default("training.optimizer_form", Value::string("fused"), "Axolotl's default");
  }
  read_deepspeed_key(reading, launch, "deepspeed");
  if (const Value* again = reading.take("gradient_checkpointing")) {
    const std::string word = word_of(*again);
    if (word == "offload" || word == "offload_disk") {
      reading.say("recompute.mode", "full", *again);
      reading.say("offload.activations", word == "offload" ? "cpu" : "nvme", *again);
    } else if (truth_of(*again).value_or(false)) {
      reading.say("recompute.mode", "full", *again);
    } else if (!reading.has("recompute.mode")) {
      reading.say("recompute.mode", "none", *again);
    }
  } else {
    reading.take_default("recompute.mode", Value::string("none"),
                         "Axolotl checkpoints only when told");
  }
  if (const Value* reentrant = reading.take("gradient_checkpointing_kwargs.use_reentrant"))
    reading.say("recompute.reentrant", *reentrant, *reentrant);
  // true and "legacy" wait in the host's memory, "disk" on the disk, "hidden_states" the inputs of layers alone.
  if (const Value* offload = reading.take("activation_offloading");
      offload != nullptr && truth_of(*offload) != std::optional(false) &&
      !word_of(*offload).empty())
    reading.say("offload.activations", word_of(*offload) == "disk" ? "nvme" : "cpu", *offload);
  if (const Value* multiple = reading.on("resize_token_embeddings_to_32x"))
    reading.say("training.vocabulary_multiple", Value::integer(32), *multiple);
  // Mxfp4Config with dequantize loads 16 bits of gpt-oss.
  if (const Value* stored = reading.theirs().find("model_quantization_config");
      stored != nullptr && !stored->is_null() &&
      !reading.is("model_quantization_config_kwargs.dequantize"))
    reading.unweighed(*stored, fmt::format("model_quantization_config {}", word_of(*stored)),
                      "weights of another quantisation than bitsandbytes'");
  if (const Value* experts = reading.theirs().find("experts_implementation");
      experts != nullptr && word_of(*experts) != "grouped_mm")
    reading.unweighed(*experts, fmt::format("experts_implementation {}", word_of(*experts)),
                      "grouped_mm, transformers' default, is weighed");
  warn_of_compile_mode(reading, "torch_compile_mode");
  read_clip(reading, "max_grad_norm", true);
  if (document.find("attn_implementation") != nullptr)
    read_attention(reading, "attn_implementation");
  for (const auto& [old, ours] :
       {std::pair{"flash_attention", "flash"}, std::pair{"xformers_attention", "efficient"},
        std::pair{"eager_attention", "eager"}})
    if (const Value* value = reading.on(old)) reading.say("training.attention", ours, *value);
  reading.on("sdp_attention");
  read_cut_loss(reading);
  if (const Value* fused = reading.on("liger_fused_linear_cross_entropy"))
    reading.say("training.loss", "fused-linear", *fused);
  const Value* swiglu = reading.on("liger_glu_activation");
  const Value* norm = reading.on("liger_rms_norm");
  const Value* rope = reading.on("liger_rope");
  if (swiglu != nullptr && norm != nullptr)
    reading.say("training.kernels", "liger", *norm);
  else if (swiglu != nullptr || norm != nullptr || rope != nullptr)
    reading.warn(swiglu != nullptr ? *swiglu
                 : norm != nullptr ? *norm
                                   : *rope,
                 "some of Liger's kernels", "weighed with all of them or none: here none");
  read_axolotl_precision(reading, launch);
  if (const Value* shard = reading.take("dp_shard_size"); shard != nullptr && shard->is_integer()) {
    const Value* copies = document.find("dp_replicate_size");
    const std::int64_t replicate = copies == nullptr ? 1 : count_of(*copies).value_or(1);
    if (shard->as_integer() < 1'000'000 && replicate < 1'000'000)
      reading.say("parallel.data", Value::integer(shard->as_integer() * replicate), *shard);
  }
  const Value* engine = reading.said("engine");
  const bool arctic = engine != nullptr && word_of(*engine) == "deepspeed";
  if (reading.has("parallel.context") && !reading.has("parallel.context_method"))
    reading.take_default(
        "parallel.context_method", Value::string(arctic ? "ulysses" : "ring"),
        arctic ? "DeepSpeed divides sequences by heads (ALST)" : "Axolotl's ring attention");
  if (const Value* method = reading.take("rl"); method != nullptr && !word_of(*method).empty()) {
    static constexpr std::string_view kMethods =
        "dpo=dpo|ipo=dpo|simpo=cpo|orpo=orpo|kto=kto|grpo=grpo|gdpo=grpo";
    if (const auto ours = ours_of(kMethods, word_of(*method)))
      reading.say("training.method", *ours, *method);
    else
      reading.unweighed(*method, fmt::format("rl {}", word_of(*method)),
                        "its losses and further models are not known here");
  }
  for (const char* reward : {"reward_model", "process_reward_model"})
    if (const Value* value = reading.on(reward)) reading.say("training.method", "rm", *value);
  if (const Value* loss = reading.on("liger_cross_entropy"))
    reading.say("training.loss", "fused", *loss);
  // A processor loads the whole of a model that sees or hears; a preset of its text alone has less.
  if (const Value* processor = document.find("processor_type");
      processor != nullptr && !processor->is_null()) {
    const Value config = model_config(launch.into.run);
    if (config.is_table() && config.find("vision_config") == nullptr)
      reading.unweighed(
          *processor, "processor_type",
          "a tower of vision or of sound beside the layers that the model's name stands for");
  }
  take_known_plugins(reading);
  warn_of_wide_ends(reading, launch);
  reading.unweighed(unweighed_of_axolotl());
  reading.carry_rest();
}

void write_axolotl(ConfigWriter& writing) {
  const std::string model = model_written(writing);
  if (!model.empty()) writing.put("base_model", model);
  const std::string engine = writing.word("engine", "ddp");
  if (engine == "megatron" || engine == "nanotron")
    writing.refuse("engine", fmt::format("Axolotl does not run {}", engine));
  writing.take("training.global_batch");
  const std::int64_t devices = writing.look_count("cluster.devices", 1);
  const std::int64_t tensor = writing.look_count("parallel.tensor", 1);
  const std::int64_t context = writing.look_count("parallel.context", 1);
  const std::int64_t replicate = writing.look_count("parallel.replicate", 1);
  const std::int64_t data = writing.count("parallel.data", devices);
  writing.rows(kRows);
  const std::string usual = engine == "deepspeed" ? "ulysses" : "ring";
  if (context > 1 && writing.word("parallel.context_method", usual) != usual)
    writing.refuse("parallel.context_method",
                   fmt::format("Axolotl with {} divides sequences by {}", engine, usual));
  if ((tensor > 1 || context > 1 || replicate > 1) &&
      data / std::max<std::int64_t>(1, replicate) > 1)
    writing.put("dp_shard_size", Value::integer(data / std::max<std::int64_t>(1, replicate)));
  const std::string mode = writing.word("recompute.mode", "none");
  if (mode != "none" && mode != "full")
    writing.refuse("recompute.mode",
                   fmt::format("Axolotl recomputes every layer or none, not {}", mode));
  writing.put("gradient_checkpointing", Value::boolean(mode == "full"),
              "what backward computes again");
  if (const Value* reentrant = writing.take("recompute.reentrant"))
    writing.put("gradient_checkpointing_kwargs.use_reentrant", *reentrant);
  write_optim(writing, "optimizer");
  write_clip(writing, "max_grad_norm");
  write_attention(writing, "attn_implementation");
  const std::string method = writing.word("adapter.method");
  take_peft_defaults(writing);
  if (!method.empty()) {
    const std::string base = writing.word("adapter.base");
    writing.put("adapter", base == "nf4" ? "qlora" : "lora",
                "what is trained beside frozen weights");
    if (method == "dora") writing.put("peft_use_dora", Value::boolean(true));
    writing.rows(kAdapter);
    // PEFT divides it by the rank; Axolotl has no default for it (loaders/adapter.py).
    if (writing.theirs.find("lora_alpha") == nullptr)
      writing.put("lora_alpha", Value::integer(writing.look_count("adapter.rank", 8)));
    if (const Value* targets = writing.look("adapter.target_modules");
        targets != nullptr && targets->is_string()) {
      writing.take("adapter.target_modules");
      writing.put("lora_target_linear", Value::boolean(true), "every matrix of the layers");
    } else {
      write_targets(writing, "lora_target_modules", "all-linear");
    }
    if (base == "nf4") {
      writing.put("load_in_4bit", Value::boolean(true));
      writing.put("bnb_config_kwargs.bnb_4bit_use_double_quant",
                  Value::boolean(writing.truth("adapter.double_quantization", false)));
    }
    if (base == "int8") writing.put("load_in_8bit", Value::boolean(true));
    if (writing.truth("adapter.quantize_experts", false))
      writing.put("quantize_moe_experts", Value::boolean(true), "experts in few bits, too");
  }
  writing.take("training.unweighed");
  if (writing.look_count("training.vocabulary_multiple", 1) == 32) {
    writing.take("training.vocabulary_multiple");
    writing.put("resize_token_embeddings_to_32x", Value::boolean(true));
  }
  const std::string loss = writing.word("training.loss", "plain");
  const bool liger = writing.word("training.kernels") == "liger";
  if (loss == "fused-linear") {
    Value plugins = Value::array({Value::string("axolotl.integrations.liger.LigerPlugin")});
    writing.put("plugins", std::move(plugins));
    writing.put("liger_fused_linear_cross_entropy", Value::boolean(true), "logits are never whole");
  } else if (loss == "cut") {
    writing.put("plugins",
                Value::array({Value::string(
                    "axolotl.integrations.cut_cross_entropy.CutCrossEntropyPlugin")}),
                "no logit is ever in memory");
    writing.put("cut_cross_entropy", Value::boolean(true));
  } else if (loss != "plain") {
    writing.refuse("training.loss", fmt::format("Axolotl is not written with the loss {}", loss));
  }
  if (liger) {
    writing.put("plugins", Value::array({Value::string("axolotl.integrations.liger.LigerPlugin")}));
    for (const char* key : {"liger_rope", "liger_rms_norm", "liger_glu_activation"})
      writing.put(key, Value::boolean(true));
  }
  const HalfPrecision half = half_precision(writing);
  // What is trained whole is loaded in 16 bits by `bf16` alone, and stays so under DDP and FSDP2.
  const bool loads_halves = method.empty() && (engine == "ddp" || engine == "fsdp2");
  const bool pure = half.load == "bfloat16";
  if (pure && !loads_halves)
    writing.put("bfloat16", Value::boolean(true), "weights and states in bf16");
  writing.put("bf16", Value::boolean(half.mixed == "bf16" || (pure && loads_halves)),
              pure ? "weights, states and arithmetic in bf16" : "arithmetic in bf16");
  writing.put("fp16", Value::boolean(half.mixed == "fp16"));
  refuse_fsdp_alone(writing);
  if (engine == "fsdp1" || engine == "fsdp2") {
    writing.put("fsdp_version", Value::integer(engine == "fsdp2" ? 2 : 1));
    writing.put("fsdp_config.reshard_after_forward",
                Value::boolean(writing.count("parallel.zero_stage", 3) == 3),
                "parameters go after forward: ZeRO-3; kept: ZeRO-2");
    writing.put("fsdp_config.offload_params", Value::boolean(offloads_with_fsdp(writing)));
    writing.put("fsdp_config.state_dict_type",
                writing.word("checkpoint.save", "sharded") == "sharded" ? "SHARDED_STATE_DICT"
                                                                        : "FULL_STATE_DICT");
    write_sync(writing);
    write_ends(writing);
    writing.put("fsdp_config.auto_wrap_policy", "TRANSFORMER_BASED_WRAP");
    writing.take("wrap.policy");
  } else if (engine == "deepspeed") {
    // The mapping itself: Axolotl takes one in place of a file.
    ConfigWriter inner(writing.run(), "deepspeed");
    write_deepspeed(inner);
    writing.put("deepspeed", inner.theirs);
    for (const Diagnostic& problem : inner.problems) writing.problems.push_back(problem);
    for (const char* key :
         {"parallel.zero_stage", "offload.optimizer", "offload.parameters", "buckets.reduce",
          "buckets.gather", "buckets.prefetch", "buckets.persistence", "buckets.live",
          "buckets.reuse", "buckets.sub_group", "overlap.reduce", "checkpoint.save"})
      writing.take(key);
  }
  writing.take("training.method");
  writing.take("training.dropout");
  writing.take("parallel.sequence_parallel");
  if (writing.look_word("implementation") == "transformers") writing.take("implementation");
  Value set = Value::table();
  set_path(set, "path", Value::string("mhenrichsen/alpaca_2k_test"), Place{});
  set_path(set, "type", Value::string("alpaca"), Place{});
  writing.fill_in("datasets", Value::array({set}), {"pretraining_dataset"});
  writing.fill_in("learning_rate", Value::number(0.00002));
  writing.fill_in("output_dir", Value::string("./outputs/out"));
  writing.fill_in("num_epochs", Value::integer(1), {"max_steps"});
}

}  // namespace steelyard
