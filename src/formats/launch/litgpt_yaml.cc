// LitGPT's YAML and commands: litgpt/finetune/{lora,full}.py, litgpt/pretrain.py, litgpt/args.py (0.5), config_hub.
//
//   litgpt finetune_lora meta-llama/Llama-3.2-1B --config lora.yaml --train.micro_batch_size 2
//   checkpoint_dir: checkpoints/meta-llama/Llama-2-7b-hf
//   precision: bf16-true
//   quantize: bnb.nf4
//   train: {global_batch_size: 8, micro_batch_size: 2, max_seq_length: 512}
#include <fmt/format.h>

#include <algorithm>

#include "formats/launch/arguments.h"
#include "formats/launch/hugging_face.h"
#include "formats/launch/programs.h"

namespace steelyard {
namespace {

enum class LitgptCommand { kFull, kLora, kPretrain, kOther };

// What a finetuning script takes where its file is silent, and what pretraining does.
struct LitgptDefaults {
  std::int64_t global_batch, micro_batch;
};
LitgptDefaults defaults_of(LitgptCommand command) {
  if (command == LitgptCommand::kPretrain) return {512, 4};
  return {16, 1};
}

constexpr Row kLora[] = {
    {"lora_r", "adapter.rank", "", "", "8"},
    {"lora_alpha", "adapter.alpha", "", "", "16"},
    {"lora_dropout", "adapter.dropout", "", "", "0.05"},
};

// A switch, the modules that it gives an adapter by the names of LLaMA, Phi, Phi-3, and of Falcon and GPT-NeoX, and whether it
// is on where nobody says it.
struct LoraSwitch {
  std::string_view key, llama, phi, phi3, neox;
  bool otherwise;
};
constexpr LoraSwitch kSwitches[] = {
    {"lora_query", "q_proj", "q_proj", "qkv_proj", "query_key_value", true},
    {"lora_key", "k_proj", "k_proj", "qkv_proj", "query_key_value", false},
    {"lora_value", "v_proj", "v_proj", "qkv_proj", "query_key_value", true},
    {"lora_projection", "o_proj", "dense", "o_proj", "dense", false},
    {"lora_mlp", "gate_proj up_proj down_proj", "fc1 fc2", "gate_up_proj down_proj",
     "dense_h_to_4h dense_4h_to_h", false},
    {"lora_head", "lm_head", "lm_head", "lm_head", "lm_head", false},
};

std::string_view modules_of(const LoraSwitch& one, std::string_view model_type) {
  if (model_type == "phi") return one.phi;
  if (model_type == "phi3") return one.phi3;
  return model_type == "falcon" || model_type == "gpt_neox" ? one.neox : one.llama;
}

void read_litgpt_adapter(ConfigReader& reading, const Value& at) {
  reading.say("adapter.method", "lora", at);
  reading.rows(kLora);
  const Value config = model_config(reading.into().run);
  const Value* type = config.find("model_type");
  const std::string model_type = type == nullptr ? "" : word_of(*type);
  Value targets = Value::array();
  const Value* said = nullptr;
  std::string before;
  bool fused = false;
  for (const LoraSwitch& one : kSwitches) {
    const Value* value = reading.take(one.key);
    if (value != nullptr) said = value;
    const bool on = value == nullptr ? one.otherwise : truth_of(*value).value_or(one.otherwise);
    const std::string modules(modules_of(one, model_type));
    fused = fused || (on && modules == before);
    if (!on || modules == before) continue;
    before = modules;
    const Value list = Value::string(modules);
    for (Value& module : words_of(&list)) targets.items().push_back(std::move(module));
  }
  if (fused)
    reading.warn(at, "adapters of query, key and value beside one product",
                 "weighed as one adapter of the whole product, which is a little larger");
  if (said != nullptr)
    reading.say("adapter.target_modules", std::move(targets), *said);
  else
    reading.take_default("adapter.target_modules", std::move(targets),
                         "LitGPT's LoRA is beside query and value");
  const Value* quantised = reading.take("quantize");
  if (quantised == nullptr) return;
  // litgpt/utils.py, instantiate_bnb_optimizer: pages of bitsandbytes beside quantised weights.
  reading.say("training.optimizer", "adamw-paged", *quantised);
  const std::string how = word_of(*quantised);
  const auto base = ours_of(
      "bnb.nf4=nf4|bnb.nf4-dq=nf4|bnb.fp4=nf4|bnb.fp4-dq=nf4|"
      "bnb.int8-training=int8",
      how);
  if (!base)
    return reading.refuse(*quantised, fmt::format("quantize: {} is not read", how),
                          "bnb.nf4, bnb.nf4-dq, bnb.fp4 and bnb.int8-training are");
  reading.say("adapter.base", *base, *quantised);
  if (*base == "nf4")
    reading.say("adapter.double_quantization", Value::boolean(how.ends_with("-dq")), *quantised);
  reading.take_default("adapter.upcast", Value::boolean(false),
                       "LitGPT leaves norms and embedding in 16 bits");
}

// model_config: the sizes of a model of LitGPT's own, as config.json has them.
void read_sizes(ConfigReader& reading, const Value& sizes) {
  static constexpr std::pair<std::string_view, std::string_view> kNames[] = {
      {"n_layer", "num_hidden_layers"},
      {"n_embd", "hidden_size"},
      {"n_head", "num_attention_heads"},
      {"n_query_groups", "num_key_value_heads"},
      {"intermediate_size", "intermediate_size"},
      {"padded_vocab_size", "vocab_size"},
      {"vocab_size", "vocab_size"},
      {"block_size", "max_position_embeddings"},
  };
  const auto says = [&](std::string_view key, std::string_view word) {
    const Value* value = sizes.find(key);
    return value != nullptr && word_of(*value) == word;
  };
  if (!says("mlp_class_name", "LLaMAMLP") || !says("norm_class_name", "RMSNorm") ||
      !says("parallel_residual", "false") || !says("bias", "false"))
    return reading.refuse(sizes, "model_config of a shape that is not read",
                          "LLaMA's is: RMSNorm, LLaMAMLP, no bias, no parallel residual",
                          "--model names a model or its config.json");
  Value config = Value::table();
  config.set_mark(sizes.mark());
  Value type = Value::string("llama");
  type.set_mark(sizes.mark());
  config.members().push_back({"model_type", sizes.mark(), type});
  for (const auto& [theirs, ours] : kNames)
    if (const Value* value = sizes.find(theirs);
        value != nullptr && !value->is_null() && config.member(ours) == nullptr)
      config.members().push_back({std::string(ours), value->mark(), *value});
  reading.say("model", std::move(config), sizes);
}

// checkpoints/meta-llama/Llama-2-7b-hf is meta-llama/Llama-2-7b-hf of the hub.
void read_litgpt_model(ConfigReader& reading) {
  const Value* sizes = reading.take("model_config");
  if (sizes != nullptr && sizes->is_table()) return read_sizes(reading, *sizes);
  for (const char* key : {"checkpoint_dir", "model_name"})
    if (const Value* value = reading.take(key); value != nullptr && !word_of(*value).empty()) {
      std::string name = word_of(*value);
      if (const std::size_t folder = name.rfind("checkpoints/"); folder != std::string::npos)
        name.erase(0, folder + std::string_view("checkpoints/").size());
      Value id = Value::string(name);
      id.set_mark(value->mark());
      return say_model(reading, id);
    }
  reading.lacks("model", "checkpoint_dir names it");
}

// LitGPT loads the head as a matrix of its own, also where a model ties it to the embedding (litgpt/scripts/convert_hf_checkpoint.py),
// unless it is told to tie them.
void untie(ConfigReader& reading) {
  const Value* model = reading.said("model");
  if (model == nullptr || !model->is_string()) return;
  if (const Value* tie = reading.on("train.tie_embeddings"))
    return reading.unweighed(*tie, "train.tie_embeddings", "embedding and head become one tensor");
  Value config = model_config(reading.into().run);
  const Value* tied = config.find("tie_word_embeddings");
  const Value* type = config.find("model_type");
  const bool gemma = type != nullptr && word_of(*type).starts_with("gemma");
  if (!config.is_table() || !(tied == nullptr ? gemma : truth_of(*tied).value_or(false))) return;
  config.set_mark(model->mark());
  const Place place = model->place();
  reading.warn(*model, "LitGPT unties the head of this model",
               "it is weighed with a matrix of its own");
  set_path(config, "tie_word_embeddings", Value::boolean(false), place);
  set_path(reading.into().run, "model", std::move(config), place);
}

// Whether more than one process trains; nothing when the machine decides.
std::optional<bool> read_litgpt_devices(ConfigReader& reading, LitgptCommand command) {
  const Value* each = reading.take("devices");
  const Value* nodes = reading.take("num_nodes");
  const std::int64_t machines = nodes == nullptr ? 1 : count_of(*nodes).value_or(0);
  if (each == nullptr && command != LitgptCommand::kPretrain) {
    reading.take_default("cluster.devices", Value::integer(1), "LitGPT finetunes on one device");
    return false;
  }
  const auto devices = each == nullptr ? std::nullopt : count_of(*each);
  if (!devices || *devices < 1 || machines < 1 || *devices > 4'096 || machines > 4'096) {
    reading.lacks("cluster.devices", "devices: auto takes all of the machine's");
    return std::nullopt;
  }
  reading.say("cluster.devices", Value::integer(*devices * machines), *each);
  reading.say("cluster.devices_per_node", Value::integer(*devices), *each);
  if (command == LitgptCommand::kPretrain && machines > 1)
    reading.say("parallel.replicate", Value::integer(machines), *nodes);
  return *devices * machines > 1;
}

// litgpt/finetune/lora.py takes FSDP2, full.py and pretrain.py FSDP1; layers run again when weights are finetuned so.
void read_strategy(ConfigReader& reading, LitgptCommand command, std::optional<bool> several) {
  if (several && !*several) {
    reading.take_default("engine", Value::string("ddp"), "LitGPT divides nothing on one device");
    return reading.take_default("recompute.mode", Value::string("none"),
                                "LitGPT recomputes nothing on one device");
  }
  const bool lora = command == LitgptCommand::kLora;
  reading.take_default("engine", Value::string(lora ? "fsdp2" : "fsdp1"),
                       "LitGPT's strategy for several devices");
  reading.take_default("parallel.zero_stage", Value::integer(3),
                       "LitGPT's strategy for several devices");
  reading.take_default("recompute.mode",
                       Value::string(command == LitgptCommand::kPretrain ? "none" : "full"),
                       "LitGPT checkpoints blocks when it finetunes on several devices");
}

void read_litgpt_precision(ConfigReader& reading, bool several) {
  const Value* precision = reading.take("precision");
  const std::string word = precision == nullptr ? "bf16-true" : word_of(*precision);
  const auto ours = ours_of(several ? "bf16-true=bf16-pure|bf16-mixed=bf16-mixed|32-true=fp32|"
                                      "16-mixed=fp16-mixed"
                                    : "bf16-true=bf16-pure|bf16-mixed=bf16-autocast|32-true=fp32|"
                                      "16-mixed=fp16-autocast",
                            word);
  if (!ours)
    return reading.refuse(*precision, fmt::format("precision: {} is not read", word),
                          "bf16-true, bf16-mixed, 16-mixed and 32-true are");
  if (precision == nullptr)
    reading.take_default("training.precision", Value::string(*ours),
                         "LitGPT takes bf16-true where the device has it");
  else
    reading.say("training.precision", *ours, *precision);
  if (*ours == "bf16-pure" && reading.has("adapter.method"))
    reading.take_default("adapter.type", Value::string("bf16"),
                         "LitGPT gives adapters the type of the weights");
}

void read_litgpt_optimizer(ConfigReader& reading, LitgptCommand command) {
  const Value* optimizer = reading.take("optimizer.class_path");
  if (optimizer == nullptr && reading.theirs().at("optimizer") != nullptr &&
      reading.theirs().at("optimizer")->is_string())
    optimizer = reading.take("optimizer");
  if (reading.has("training.optimizer")) return;  // quantised weights have their own
  std::string name = optimizer == nullptr ? "AdamW" : word_of(*optimizer);
  name.erase(0, name.rfind('.') == std::string::npos ? 0 : name.rfind('.') + 1);
  const auto ours =
      ours_of("AdamW=adamw|Adam=adam|SGD=sgd|GaLoreAdamW=galore|Adafactor=adafactor", name);
  if (!ours)
    return reading.refuse(*optimizer, fmt::format("the optimizer {} is not known", name),
                          "its states cannot be counted");
  if (optimizer == nullptr)
    reading.take_default("training.optimizer", Value::string(*ours), "LitGPT's optimizer is AdamW");
  else
    reading.say("training.optimizer", *ours, *optimizer);
  if (*ours == "adamw" || *ours == "adam")
    reading.take_default("training.optimizer_form",
                         Value::string(command == LitgptCommand::kPretrain ? "fused" : "foreach"),
                         "LitGPT's form of torch's optimizers");
}

void read_litgpt(const Value& document, Launch& launch, LitgptCommand command) {
  ConfigReader reading(document, "litgpt", launch.into);
  launch.into.formats.emplace_back("litgpt YAML");
  reading.take_default("implementation", Value::string("litgpt"), "LitGPT's own model code");
  read_litgpt_model(reading);
  untie(reading);
  reading.say("training.method", command == LitgptCommand::kPretrain ? "pretrain" : "sft",
              document);
  const std::optional<bool> several = read_litgpt_devices(reading, command);
  const LitgptDefaults otherwise = defaults_of(command);
  for (const auto& [theirs, ours, value] :
       {std::tuple{"train.global_batch_size", "training.global_batch", otherwise.global_batch},
        std::tuple{"train.micro_batch_size", "training.micro_batch", otherwise.micro_batch}})
    if (const Value* said = reading.take(theirs); said != nullptr && count_of(*said))
      reading.say(ours, Value::integer(*count_of(*said)), *said);
    else
      reading.take_default(ours, Value::integer(value), fmt::format("LitGPT's {}", theirs));
  if (const Value* length = reading.take("train.max_seq_length"); length != nullptr)
    reading.say("training.sequence_length", *length, *length);
  else
    reading.lacks("training.sequence_length",
                  "without train.max_seq_length the longest sample decides");
  if (command == LitgptCommand::kLora) read_litgpt_adapter(reading, document);
  if (command == LitgptCommand::kOther)
    reading.unweighed(document, "LLaMA-Adapter", "prefixes beside attention are trained");
  read_strategy(reading, command, several);
  read_litgpt_precision(reading, several.value_or(true));
  read_litgpt_optimizer(reading, command);
  if (document.at("train.max_norm") != nullptr && !document.at("train.max_norm")->is_null())
    read_clip(reading, "train.max_norm", false);
  else
    reading.take_default("training.gradient_clip", Value::boolean(false),
                         "LitGPT clips where train.max_norm says so");
  if (command == LitgptCommand::kPretrain)
    reading.take_default("training.compile", Value::boolean(true),
                         "LitGPT compiles what it pretrains");
  reading.carry_rest();
}

LitgptCommand command_of(const Value& document) {
  if (document.find("lora_r") != nullptr || document.find("quantize") != nullptr)
    return LitgptCommand::kLora;
  if (document.find("model_name") != nullptr || document.find("initial_checkpoint_dir") != nullptr)
    return LitgptCommand::kPretrain;
  return LitgptCommand::kFull;
}

bool is_litgpt_document(const Value& document) {
  const auto has = [&](const char* key) { return document.at(key) != nullptr; };
  return document.find("train") != nullptr && (has("checkpoint_dir") || has("model_name")) &&
         (has("train.micro_batch_size") || has("train.global_batch_size") ||
          has("train.max_seq_length"));
}

void read_litgpt_document(const Value& document, Launch& launch) {
  read_litgpt(document, launch, command_of(document));
}

bool is_litgpt(const ProgramCall& call) { return call.name == "litgpt"; }

bool read_litgpt_program(const ProgramCall& call, Launch& launch) {
  if (call.words.empty()) return false;
  std::string command = call.words.front().as_string();
  std::span<const Value> words = call.words.subspan(1);
  // Before 0.4.3: `litgpt finetune lora`.
  if (command == "finetune" && !words.empty() &&
      ours_of("lora|full|adapter|adapter_v2", words.front().as_string())) {
    command += "_" + words.front().as_string();
    words = words.subspan(1);
  }
  const auto kind = ours_of(
      "finetune=lora|finetune_lora=lora|finetune_full=full|pretrain=pretrain|"
      "finetune_adapter=other|finetune_adapter_v2=other",
      command);
  if (!kind) return false;
  const Arguments arguments = read_arguments(words, true);
  Value document = Value::table();
  document.set_mark(call.program.mark());
  if (const Value* file = arguments.flags.find("config")) {
    const auto read = named_document(launch, *file);
    if (!read) return true;
    document = *read;
  }
  lay_over_document(document, arguments.flags);
  remove_path(document, "config");
  if (!arguments.words.empty())
    set_path(document, *kind == "pretrain" ? "model_name" : "checkpoint_dir",
             arguments.words.front(), arguments.words.front().place());
  read_litgpt(document, launch,
              *kind == "lora"       ? LitgptCommand::kLora
              : *kind == "full"     ? LitgptCommand::kFull
              : *kind == "pretrain" ? LitgptCommand::kPretrain
                                    : LitgptCommand::kOther);
  return true;
}

}  // namespace

extern const TrainingProgram litgpt_program = {"litgpt", is_litgpt, read_litgpt_program, "litgpt"};
extern const DocumentFormat litgpt_document = {"litgpt", "litgpt YAML", is_litgpt_document,
                                               read_litgpt_document};

}  // namespace steelyard
