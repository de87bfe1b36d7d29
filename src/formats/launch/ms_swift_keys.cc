// Keys that `swift sft` and `megatron sft` have in common: swift/arguments (4.5), swift/megatron/arguments/megatron_args.py.
#include <fmt/format.h>

#include <algorithm>

#include "formats/launch/hugging_face.h"
#include "formats/launch/ms_swift.h"
#include "formats/launch/unweighed_keys.h"

namespace steelyard {
namespace {

constexpr Row kLora[] = {
    {"lora_rank", "adapter.rank", "", "", "8"},
    {"lora_alpha", "adapter.alpha", "", "", "32"},
    {"lora_dropout", "adapter.dropout", "", "lora_dropout_p", "0.05"},
    {"lora_dtype", "adapter.type",
     "float32=fp32|fp32=fp32|bfloat16=bf16|bf16=bf16|float16=fp16|fp16=fp16|auto="},
};

// A variable of the command's environment, else of the file's own ENV; null when it is not set.
const Value* variable_of(ConfigReader& reading, Launch& launch, const std::string& name) {
  if (launch.environment != nullptr)
    if (const auto found = launch.environment->find(name); found != launch.environment->end())
      return &found->second;
  return reading.take("ENV." + name);
}

// "0,1,2,3" is four devices; nothing for what is not such a list.
std::int64_t devices_listed(const std::string& list) {
  if (list.empty() || has_hole(list) || list.find_first_not_of("0123456789, ") != std::string::npos)
    return 0;
  return 1 + std::count(list.begin(), list.end(), ',');
}

// Megatron-core's linear layers by their names, as the model's own.
constexpr std::pair<std::string_view, std::string_view> kMegatronModules[] = {
    {"linear_qkv", "q_proj k_proj v_proj"},
    {"linear_proj", "o_proj"},
    {"linear_fc1", "gate_proj up_proj"},
    {"linear_fc2", "down_proj"},
};

void add_target(ConfigReader& reading, const Value& word, bool megatron, Value& list) {
  const std::string name = word_of(word);
  if (name == "all-router" || name == "all-embedding" || name == "ALL" || name == "DEFAULT" ||
      name == "EMBEDDING" || name == "AUTO")
    return reading.unweighed(word, fmt::format("target_modules {}", name),
                             "which modules those are, the framework decides");
  const auto* const layer = std::find_if(std::begin(kMegatronModules), std::end(kMegatronModules),
                                         [&](const auto& one) { return one.first == name; });
  const std::string theirs =
      megatron && layer != std::end(kMegatronModules) ? std::string(layer->second) : name;
  Value text = Value::string(theirs);
  text.set_mark(word.mark());
  for (Value& each : words_of(&text)) list.items().push_back(std::move(each));
}

void read_swift_targets(ConfigReader& reading, bool megatron) {
  for (const char* key : {"target_regex", "lora_target_regex"})
    if (const Value* pattern = reading.take(key))
      return reading.unweighed(*pattern, key, "a regular expression chooses the modules");
  const Value* targets = reading.take("target_modules");
  if (targets == nullptr) targets = reading.take("lora_target_modules");
  if (targets == nullptr)
    return reading.take_default("adapter.target_modules", Value::string("all-linear"),
                                "ms-swift's target_modules is all-linear");
  const std::vector<Value> words = words_of(targets);
  Value list = Value::array();
  for (const Value& word : words) {
    const std::string name = word_of(word);
    if (name == "all-linear" || name == "all_linear") {
      reading.say("adapter.target_modules", "all-linear", *targets);
      continue;
    }
    add_target(reading, word, megatron, list);
  }
  if (list.items().empty()) return;
  if (reading.has("adapter.target_modules"))
    return reading.unweighed(*targets, "target_modules", "modules beside all-linear");
  reading.say("adapter.target_modules", std::move(list), *targets);
}

void read_swift_saved_modules(ConfigReader& reading, bool megatron) {
  const Value* saved = reading.take("modules_to_save");
  if (saved == nullptr) saved = reading.take("lora_modules_to_save");
  Value list = Value::array();
  for (const Value& word : words_of(saved)) {
    std::string name = word_of(word);
    if (name == "all-norm" || name == "LN") {
      reading.unweighed(word, fmt::format("modules_to_save {}", name), "every norm is trained");
      continue;
    }
    if (name == "all-embedding" || name == "EMBEDDING" || (megatron && name == "word_embeddings"))
      name = "embed_tokens";
    if (megatron && name == "output_layer") name = "lm_head";
    list.items().push_back(Value::string(name));
  }
  if (saved != nullptr && !list.items().empty())
    reading.say("adapter.saved_modules", std::move(list), *saved);
}

}  // namespace

void read_swift_method(ConfigReader& reading, std::string_view command) {
  const Value* kind = reading.take("rlhf_type");
  if (command == "rlhf" || kind != nullptr) {
    if (kind == nullptr) {
      reading.take_default("training.method", Value::string("dpo"),
                           "swift rlhf is DPO unless told");
      return refuse_preferences_of(reading, "ms-swift", reading.theirs());
    }
    if (const auto method =
            ours_of("dpo=dpo|kto=kto|rm=rm|ppo=ppo|grpo=grpo|orpo=orpo|cpo=cpo|simpo=cpo",
                    word_of(*kind))) {
      reading.say("training.method", *method, *kind);
      return refuse_preferences_of(reading, "ms-swift", *kind);
    }
    reading.unweighed(*kind, fmt::format("rlhf_type {}", word_of(*kind)),
                      "its losses and further models are not weighed");
    return;
  }
  if (!command.empty())
    reading.say("training.method", command == "pt" ? "pretrain" : "sft", reading.theirs());
}

void read_swift_model(ConfigReader& reading) {
  // Before version 3 model_type was a name for the model, and model_id_or_path where it lies.
  for (const char* key : {"model", "model_id_or_path", "mcore_model", "model_type"})
    if (const Value* model = reading.take(key); model != nullptr && !word_of(*model).empty())
      return say_model(reading, *model);
}

void read_swift_devices(ConfigReader& reading, Launch& launch) {
  if (reading.has("cluster.devices")) return;
  const Value* each = variable_of(reading, launch, "NPROC_PER_NODE");
  const Value* nodes = variable_of(reading, launch, "NNODES");
  const Value* visible = variable_of(reading, launch, "CUDA_VISIBLE_DEVICES");
  if (visible == nullptr) visible = variable_of(reading, launch, "ASCEND_RT_VISIBLE_DEVICES");
  const std::int64_t seen = visible == nullptr ? 0 : devices_listed(word_of(*visible));
  std::int64_t processes = 1;
  for (const Value* part : {each, nodes}) {
    if (part == nullptr) continue;
    const Value typed = typed_value(word_of(*part));
    if (!typed.is_integer() || typed.as_integer() < 1 || typed.as_integer() > 1'000'000)
      return reading.lacks("cluster.devices",
                           fmt::format("{} is a variable that nobody sets",
                                       part == each ? "NPROC_PER_NODE" : "NNODES"));
    processes *= typed.as_integer();
  }
  if (processes > 16'777'216) return;
  if (each != nullptr) {
    reading.say("cluster.devices", Value::integer(processes), *each);
    reading.say("cluster.devices_per_node", typed_value(word_of(*each)), *each);
  } else if (nodes != nullptr) {
    reading.say("cluster.devices", Value::integer(processes), *nodes);
  } else if (seen > 0) {
    reading.say("cluster.devices", Value::integer(1), *visible);
  } else if (launch.environment != nullptr) {
    reading.take_default("cluster.devices", Value::integer(1),
                         "swift starts one process unless NPROC_PER_NODE says more");
  }
  const std::int64_t own = each == nullptr ? 1 : count_of(*each).value_or(1);
  if (seen > own)
    reading.unweighed(
        *visible, "CUDA_VISIBLE_DEVICES",
        fmt::format("{} process{} on {} devices: each divides its layers over several "
                    "(device_map)",
                    own, own == 1 ? "" : "es", seen));
}

void read_swift_adapter(ConfigReader& reading, const Value* tuner, bool megatron) {
  const std::string kind = tuner == nullptr ? (megatron ? "full" : "lora") : word_of(*tuner);
  if (kind == "full") return;
  if (kind != "lora")
    return reading.unweighed(*tuner, fmt::format("tuner_type {}", kind),
                             "this kind of tuner is not weighed");
  const Value* dora = reading.on("use_dora");
  if (tuner == nullptr)
    reading.take_default("adapter.method", Value::string("lora"),
                         "swift trains a LoRA unless told");
  else
    reading.say("adapter.method", dora != nullptr ? "dora" : "lora",
                dora != nullptr ? *dora : *tuner);
  reading.rows(kLora);
  read_swift_targets(reading, megatron);
  read_swift_saved_modules(reading, megatron);
}

}  // namespace steelyard
