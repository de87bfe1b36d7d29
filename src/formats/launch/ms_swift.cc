// ms-swift's commands and YAML: swift/cli/main.py, swift/arguments (4.5), and the names of versions 2 and 3.
//
//   NPROC_PER_NODE=4 swift sft --model Qwen/Qwen2.5-7B-Instruct --tuner_type lora --deepspeed zero3 --max_length 2048
//   swift sft config.yaml              the same keys in a file, with ENV: {NPROC_PER_NODE: 4}
#include "formats/launch/ms_swift.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "document/read.h"
#include "formats/launch/arguments.h"
#include "formats/launch/fsdp_keys.h"
#include "formats/launch/hugging_face.h"
#include "formats/launch/programs.h"

namespace steelyard {
namespace {

constexpr Row kTraining[] = {
    {"per_device_train_batch_size", "training.micro_batch", "", "batch_size", "1"},
    {"gradient_accumulation_steps", "training.gradient_accumulation"},
    {"max_length", "training.sequence_length"},
    {"sequence_parallel_size", "parallel.context"},
    {"torch_compile", "training.compile"},
};

// swift/config/*.json, what they say of memory.
constexpr std::string_view kOfTrainer =
    R"("fp16": {"enabled": "auto"}, "bf16": {"enabled": "auto"}, "gradient_clipping": "auto",
    "gradient_accumulation_steps": "auto", "train_batch_size": "auto",
    "train_micro_batch_size_per_gpu": "auto")";
constexpr std::string_view kStages012 =
    R"("allgather_bucket_size": 2e8, "overlap_comm": false, "reduce_bucket_size": 2e8)";
constexpr std::string_view kStage3 =
    R"("overlap_comm": false, "sub_group_size": 1e9, "reduce_bucket_size": "auto",
    "stage3_prefetch_bucket_size": "auto", "stage3_param_persistence_threshold": "auto",
    "stage3_max_live_parameters": 1e9, "stage3_max_reuse_distance": 1e9,
    "stage3_gather_16bit_weights_on_model_save": true)";
struct NamedDeepspeed {
  std::string_view name;
  int stage;
  std::string_view places;
};
constexpr std::array kDeepspeed = {
    NamedDeepspeed{"zero0", 0, ""},
    NamedDeepspeed{"zero1", 1, R"("offload_optimizer": {"device": "none"}, )"},
    NamedDeepspeed{"zero2", 2, R"("offload_optimizer": {"device": "none"}, )"},
    NamedDeepspeed{"zero2_offload", 2, R"("offload_optimizer": {"device": "cpu"}, )"},
    NamedDeepspeed{
        "zero3", 3,
        R"("offload_optimizer": {"device": "none"}, "offload_param": {"device": "none"}, )"},
    NamedDeepspeed{
        "zero3_offload", 3,
        R"("offload_optimizer": {"device": "cpu"}, "offload_param": {"device": "cpu"}, )"},
};

constexpr std::string_view kFsdp2 = R"({"fsdp": "full_shard auto_wrap", "fsdp_config": {
    "fsdp_version": 2, "reshard_after_forward": true, "auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
    "state_dict_type": "SHARDED_STATE_DICT", "activation_checkpointing": true}})";

// Each changes what is held, by a rule that is not known here.
constexpr UnweighedKey kUnweighed[] = {
    {"freeze_parameters_ratio", "a part of the parameters is frozen, by their count"},
    {"freeze_parameters_regex", "a regular expression chooses what is frozen"},
    {"trainable_parameters", "parameters that are trained among frozen ones"},
    {"trainable_parameters_regex", "a regular expression chooses what is trained"},
    {"target_parameters", "adapters beside the tensors of experts"},
    {"lisa_activated_layers", "layers take turns in being trained"},
    {"galore_quantization", "Q-GaLore keeps weights in 8 bits"},
    {"galore_optim_per_parameter", "a GaLore of each tensor steps in backward"},
    {"teacher_model", "a second model beside the first"},
    {"ref_model", "a second model beside the first"},
    {"reward_model", "a second model beside the first"},
    {"device_map", "the layers of one process are divided over several devices"},
    {"device_map_config", "the layers of one process are divided over several devices"},
    {"enable_channel_loss", "losses of each channel are kept", true},
    {"vit_gradient_checkpointing", "what a tower of vision recomputes: weighed as the rest", true},
    {"use_logits_to_keep", "logits of the answers alone: weighed as all", true},
    {"neftune_noise_alpha", "noise of the size of the embedding's output", true},
    {"new_special_tokens", "the vocabulary grows by them", true},
    {"experts_impl", "how products of experts are written", true},
};

void put_text(Value& document, std::string_view path, std::string_view json,
              std::string_view name) {
  if (ReadValue read = read_json(json, fmt::format("ms-swift's {}", name)))
    set_path(document, path, std::move(*read), document.place());
}

// Names of files that ms-swift brings with it become what they say.
Value with_named_files(const Value& document) {
  Value whole = document;
  const Value* deepspeed = document.find("deepspeed");
  if (deepspeed != nullptr)
    for (const NamedDeepspeed& one : kDeepspeed)
      if (word_of(*deepspeed) == one.name ||
          word_of(*deepspeed) == fmt::format("default-{}", one.name))
        put_text(whole, "deepspeed",
                 fmt::format("{{{}, \"zero_optimization\": {{{}{}, \"stage\": {}}}}}", kOfTrainer,
                             one.places, one.stage == 3 ? kStage3 : kStages012, one.stage),
                 fmt::format("{}.json", one.name));
  if (const Value* hpz = document.find("zero_hpz_partition_size");
      hpz != nullptr && whole.find("deepspeed") != nullptr && whole.find("deepspeed")->is_table())
    set_path(whole, "deepspeed.zero_optimization.zero_hpz_partition_size", *hpz, hpz->place());
  if (const Value* tensor = document.find("deepspeed_autotp_size");
      tensor != nullptr && whole.find("deepspeed") != nullptr &&
      whole.find("deepspeed")->is_table())
    set_path(whole, "deepspeed.tensor_parallel.autotp_size", *tensor, tensor->place());
  const Value* fsdp = document.find("fsdp");
  if (fsdp != nullptr && word_of(*fsdp) == "fsdp2") {
    const ReadValue both = read_json(kFsdp2, "ms-swift's fsdp2.json");
    for (const char* key : {"fsdp", "fsdp_config"})
      if (both && both->find(key) != nullptr)
        set_path(whole, key, *both->find(key), document.place());
  }
  return whole;
}

// base_args/model_args.py, _init_mixed_precision: the type of the weights decides which autocast runs, and fp32 means fp16.
void read_types(ConfigReader& reading, Launch& launch) {
  const Value* type = reading.take("torch_dtype");
  if (type == nullptr) type = reading.take("dtype");
  const Value config = model_config(launch.into.run);
  const Value* stored = config.find("torch_dtype");
  if (stored == nullptr) stored = config.find("dtype");
  const bool said = type != nullptr && word_of(*type) != "AUTO";
  const std::string word = said                ? word_of(*type)
                           : stored != nullptr ? word_of(*stored)
                                               : "bfloat16";
  const std::string load =
      ours_of(
          "bf16=bfloat16|bfloat16=bfloat16|fp16=float16|float16=float16|fp32=float32|"
          "float32=float32",
          word)
          .value_or("bfloat16");
  Place taken;
  taken.source = "<the model's own type, which ms-swift takes>";
  const Mark mark = said ? type->mark() : mark_of(taken);
  launch.load = Value::string(load);
  launch.load.set_mark(mark);
  launch.mixed = Value::string(load == "bfloat16" ? "bf16" : "fp16");
  launch.mixed.set_mark(mark);
  for (const char* key : {"bf16", "fp16"})
    if (const Value* value = reading.on(key)) {
      launch.mixed = Value::string(key);
      launch.mixed.set_mark(value->mark());
    }
}

void read_quantised(ConfigReader& reading, Launch& launch) {
  const Value* bits = reading.take("quant_bits");
  if (bits == nullptr) bits = reading.take("quantization_bit");
  const Value* method = reading.take("quant_method");
  const std::string count = bits == nullptr ? "" : word_of(*bits);
  if ((count.empty() || count == "0") && method == nullptr) {
    // Without quantisation the frozen weights keep the type in which they are loaded.
    const std::string load = word_of(launch.load);
    if (reading.has("adapter.method") && load != "bfloat16")
      reading.say("adapter.base", load == "float16" ? "fp16" : "fp32", launch.load);
    return;
  }
  const std::string how = method == nullptr ? "bnb" : word_of(*method);
  if (how == "awq" || how == "gptq" || how == "gptq_v2") return;  // the model's own name says it
  if (how != "bnb" || (count != "4" && count != "8"))
    return reading.unweighed(method == nullptr ? *bits : *method,
                             fmt::format("quant_method {}", how),
                             "weights of another quantisation than bitsandbytes' 4 and 8 bits");
  reading.say("adapter.base", count == "4" ? "nf4" : "int8", *bits);
  reading.take_default("adapter.upcast", Value::boolean(false),
                       "ms-swift leaves norms and embedding in 16 bits");
  if (count == "8") return;
  reading.take("bnb_4bit_quant_type");
  if (const Value* twice = reading.take("bnb_4bit_use_double_quant"))
    reading.say("adapter.double_quantization", *twice, *twice);
  else
    reading.take_default("adapter.double_quantization", Value::boolean(true),
                         "ms-swift quantises the constants too");
}

void read_swift_optimizer(ConfigReader& reading) {
  const Value* plugin = reading.take("optimizer");
  const Value* galore = reading.on("use_galore");
  if (galore != nullptr) return reading.say("training.optimizer", "galore", *galore);
  // lorap and multimodal are AdamW in groups of their own.
  if (plugin != nullptr && word_of(*plugin) != "lorap" && word_of(*plugin) != "multimodal") {
    if (const auto ours = ours_of("galore=galore|muon=muon|adamw=adamw", word_of(*plugin)))
      return reading.say("training.optimizer", *ours, *plugin);
    return reading.unweighed(*plugin, fmt::format("optimizer {}", word_of(*plugin)),
                             "its states are not known");
  }
  if (reading.theirs().find("optim") != nullptr) return read_optim(reading, "optim");
  reading.take_default("training.optimizer", Value::string("adamw"), "Trainer's default");
  reading.take_default("training.optimizer_form", Value::string("fused"), "Trainer's default");
}

// sft_args.py, _init_fsdp: what FSDP recomputes switches Trainer's own off; both are the same here.
void read_swift_recompute(ConfigReader& reading) {
  const Value* again = reading.take("gradient_checkpointing");
  const std::optional<bool> said = again == nullptr ? std::nullopt : truth_of(*again);
  if (said && *said)
    reading.say("recompute.mode", "full", *again);
  else if (said)
    reading.take_default("recompute.mode", Value::string("none"),
                         "gradient_checkpointing is false, unless FSDP recomputes");
  else
    reading.take_default("recompute.mode", Value::string("full"),
                         "ms-swift recomputes layers unless told not to");
  if (const auto reentrant = reading.truth("gradient_checkpointing_kwargs.use_reentrant"))
    reading.say("recompute.reentrant", Value::boolean(*reentrant),
                *reading.theirs().at("gradient_checkpointing_kwargs.use_reentrant"));
}

void read_kernels(ConfigReader& reading) {
  const Value* liger = reading.on("use_liger_kernel");
  if (liger == nullptr) liger = reading.on("use_liger");
  if (liger != nullptr) {
    reading.say("training.loss", "fused-linear", *liger);
    reading.say("training.kernels", "liger", *liger);
  }
  if (const Value* backend = reading.take("tuner_backend");
      backend != nullptr && word_of(*backend) == "unsloth")
    reading.say("training.kernels", "unsloth", *backend);
  if (const Value* flash = reading.take("use_flash_attn"); flash != nullptr)
    if (truth_of(*flash).value_or(false)) reading.say("training.attention", "flash", *flash);
  read_attention(reading, "attn_impl");
}

void read_frozen(ConfigReader& reading) {
  const Value* frozen = reading.take("freeze_parameters");
  Value list = Value::array();
  for (const Value& prefix : words_of(frozen))
    list.items().push_back(Value::string(word_of(prefix) + "*"));
  if (frozen != nullptr && !list.items().empty())
    reading.say("training.frozen", std::move(list), *frozen);
}

// A head of another task stands in the place of the vocabulary's.
void read_task(ConfigReader& reading) {
  const Value* task = reading.take("task_type");
  if (task != nullptr && word_of(*task) != "causal_lm")
    reading.unweighed(*task, fmt::format("task_type {}", word_of(*task)),
                      "another head and loss than those of the vocabulary");
}

// `from_environment`: swift itself starts the processes, and no launcher before it.
void read_swift_trainer(const Value& named, Launch& launch, std::string_view command,
                        bool from_environment) {
  const Value document = with_named_files(named);
  ConfigReader reading(document, "ms-swift", launch.into);
  launch.into.formats.emplace_back("ms-swift arguments");
  launch.hugging_face = true;
  read_swift_model(reading);
  read_swift_method(reading, command);
  read_task(reading);
  if (from_environment) read_swift_devices(reading, launch);
  const Value* tuner = nullptr;
  for (const char* key : {"tuner_type", "train_type", "sft_type"})
    if (tuner == nullptr) tuner = reading.take(key);
  if (const Value* backend = document.find("train_backend");
      backend != nullptr && word_of(*backend) == "megatron")
    reading.unweighed(*backend, "train_backend megatron", "another engine trains");
  reading.rows(kTraining);
  if (const Value* divided = reading.said("parallel.context");
      divided != nullptr && count_of(*divided).value_or(1) > 1)
    reading.take_default("parallel.context_method", Value::string("ulysses"),
                         "ms-swift divides heads before it divides sequences");
  if (!reading.has("training.sequence_length"))
    reading.lacks("training.sequence_length",
                  "without --max_length only the model's own limit cuts");
  if (!reading.has("training.gradient_accumulation"))
    reading.take_default("training.global_batch", Value::integer(16),
                         "ms-swift accumulates up to 16 sequences unless told");
  read_types(reading, launch);
  read_swift_adapter(reading, tuner, false);
  read_quantised(reading, launch);
  read_swift_recompute(reading);
  read_swift_optimizer(reading);
  warn_of_compile_mode(reading, "torch_compile_mode");
  read_clip(reading, "max_grad_norm", true);
  read_kernels(reading);
  read_frozen(reading);
  for (const char* key : {"packing", "padding_free"}) reading.take(key);
  reading.unweighed(kUnweighed);
  read_fsdp_keys(reading, launch);
  read_sync(reading);
  read_deepspeed_key(reading, launch, "deepspeed");
  reading.carry_rest();
}

bool is_megatron_document(const Value& document) {
  return document.find("global_batch_size") != nullptr ||
         document.find("micro_batch_size") != nullptr ||
         document.find("tensor_model_parallel_size") != nullptr;
}

bool is_swift_document(const Value& document) {
  const auto has = [&](const char* key) { return document.find(key) != nullptr; };
  return has("model") && (has("tuner_type") || has("rlhf_type") || has("train_type")) &&
         has("dataset");
}

void read_swift_document(const Value& document, Launch& launch) {
  if (is_megatron_document(document))
    read_swift_megatron(document, launch, "", true);
  else
    read_swift_trainer(document, launch, "", true);
}

constexpr std::string_view kCommands = "sft=sft|pt=pt|rlhf=rlhf";

// `swift sft ...`, `megatron pt ...`, python swift/cli/sft.py, python -m swift.cli.rlhf, cli/_megatron/sft.py.
struct SwiftCall {
  std::string command;  // empty: nothing that trains
  bool megatron = false;
  std::size_t words = 0;  // of them belong to the command
};
SwiftCall call_of(const ProgramCall& call) {
  const std::string& path = call.program.as_string();
  SwiftCall result;
  if (call.name == "swift" || call.name == "megatron") {
    if (call.words.empty()) return result;
    result.command = ours_of(kCommands, call.words.front().as_string()).value_or("");
    result.megatron = call.name == "megatron";
    result.words = 1;
    return result;
  }
  for (const std::string_view folder :
       {"swift/cli/", "swift.cli.", "swift/cli/_megatron/", "swift.cli._megatron."}) {
    const std::size_t at = path.rfind(folder);
    if (at == std::string::npos) continue;
    std::string rest = path.substr(at + folder.size());
    if (rest.ends_with(".py")) rest.resize(rest.size() - 3);
    if (const auto known = ours_of(kCommands, rest)) {
      result.command = *known;
      result.megatron = folder.find("_megatron") != std::string_view::npos;
    } else if (rest == "main" && !call.words.empty()) {
      result.command = ours_of(kCommands, call.words.front().as_string()).value_or("");
      result.words = 1;
    }
  }
  return result;
}

bool is_swift(const ProgramCall& call) {
  return call.name == "swift" || call.name == "megatron" || !call_of(call).command.empty();
}

bool read_swift(const ProgramCall& call, Launch& launch) {
  const SwiftCall swift = call_of(call);
  if (swift.command.empty()) return false;
  std::span<const Value> words = call.words.subspan(swift.words);
  Value document = Value::table();
  document.set_mark(call.program.mark());
  if (!words.empty() && is_file_of(words.front(), {".yaml", ".yml", ".json"})) {
    const auto read = named_document(launch, words.front());
    if (!read) return true;
    document = *read;
    words = words.subspan(1);
  }
  lay_over_document(document, read_arguments(words).flags);
  const bool own = call.name == "swift" || call.name == "megatron";
  if (swift.megatron)
    read_swift_megatron(document, launch, swift.command, own);
  else
    read_swift_trainer(document, launch, swift.command, own);
  return true;
}

}  // namespace

extern const TrainingProgram ms_swift_program = {"ms-swift", is_swift, read_swift,
                                                 "swift|megatron"};
extern const DocumentFormat ms_swift_document = {"ms-swift", "ms-swift arguments",
                                                 is_swift_document, read_swift_document};

}  // namespace steelyard
