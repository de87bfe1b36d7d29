#include "formats/launch/torchtune_model.h"

#include <fmt/format.h>

#include <algorithm>

#include "formats/launch/hugging_face.h"

namespace steelyard {
namespace {

// torchtune.models.llama3_1.lora_llama3_1_70b: the builder's name says which sizes.
constexpr std::string_view kBuilders =
    "llama3_1_8b=llama-3.1-8b|llama3_1_70b=llama-3.1-70b|llama3_1_405b=llama-3.1-405b|"
    "llama3_2_1b=llama-3.2-1b|llama3_2_3b=llama-3.2-3b|llama3_3_70b=llama-3.3-70b|"
    "llama3_8b=llama-3-8b|llama3_70b=llama-3-70b|llama2_7b=llama-2-7b|llama2_13b=llama-2-13b|"
    "llama2_70b=llama-2-70b|code_llama2_7b=codellama-7b|code_llama2_13b=codellama-13b|"
    "code_llama2_70b=codellama-70b|mistral_7b=mistral-7b-v0.1|qwen2_0_5b=qwen2-0.5b|"
    "qwen2_1_5b=qwen2-1.5b|qwen2_7b=qwen2-7b|qwen2_5_0_5b=qwen2.5-0.5b|qwen2_5_1_5b=qwen2.5-1.5b|"
    "qwen2_5_3b=qwen2.5-3b|qwen2_5_7b=qwen2.5-7b|qwen2_5_14b=qwen2.5-14b|qwen2_5_32b=qwen2.5-32b|"
    "qwen2_5_72b=qwen2.5-72b|gemma_2b=gemma-2b|gemma_7b=gemma-7b|gemma2_2b=gemma-2-2b|"
    "gemma2_9b=gemma-2-9b|gemma2_27b=gemma-2-27b|phi3_mini=phi-3-mini-4k|phi4_14b=phi-4|"
    "qwen3_0_6b=qwen3-0.6b|qwen3_1_7b=qwen3-1.7b|qwen3_4b=qwen3-4b|qwen3_8b=qwen3-8b|"
    "qwen3_14b=qwen3-14b|qwen3_32b=qwen3-32b|llama4_scout_17b_16e=llama-4-scout-17b-16e|"
    "llama4_maverick_17b_128e=llama-4-maverick-17b-128e";

// Builders that take sizes: whose config.json's keys describe the same modules (models/*/_component_builders.py).
constexpr std::string_view kComponents = "llama2=llama|llama3=llama|llama3_1=llama|mistral=mistral";

constexpr std::pair<std::string_view, std::string_view> kSizes[] = {
    {"vocab_size", "vocab_size"},
    {"num_layers", "num_hidden_layers"},
    {"num_heads", "num_attention_heads"},
    {"num_kv_heads", "num_key_value_heads"},
    {"embed_dim", "hidden_size"},
    {"intermediate_dim", "intermediate_size"},
    {"max_seq_len", "max_position_embeddings"}};

// What an absent intermediate_dim becomes (models/llama2/_model_utils.py).
std::int64_t usual_intermediate(std::int64_t width) {
  constexpr std::int64_t kMultiple = 256;
  const std::int64_t wide = 4 * (2 * width / 3);
  return (wide + kMultiple - 1) / kMultiple * kMultiple;
}

// The keys that every table of a component has; each stands where the builder is named.
void finish_sizes(Value& model, const Value& component) {
  Value apart = Value::boolean(false);
  apart.set_mark(component.mark());
  model.members().push_back({"tie_word_embeddings", component.mark(), std::move(apart)});
  model.set_mark(component.mark());
}

Value begin_sizes(std::string_view family, const Value& component) {
  Value type = Value::string(std::string(family));
  type.set_mark(component.mark());
  Value model = Value::table();
  model.members().push_back({"model_type", component.mark(), std::move(type)});
  return model;
}

// A table of config.json's keys; a missing size is refused.
void say_component(ConfigReader& reading, const std::string& section, const std::string& family,
                   const Value& component) {
  Value model = begin_sizes(family, component);
  for (const auto& [theirs, ours] : kSizes) {
    const Value* size = reading.take(fmt::format("{}.{}", section, theirs));
    Value value = size == nullptr ? Value() : *size;
    if (size == nullptr && theirs == "intermediate_dim" && family == "llama")
      if (const Value* width = reading.theirs().at(fmt::format("{}.embed_dim", section));
          width != nullptr && width->is_integer() && width->as_integer() > 0 &&
          width->as_integer() < 1'000'000)
        value = Value::integer(usual_intermediate(width->as_integer()));
    if (!value.is_integer() || value.as_integer() < 1)
      return reading.refuse(component, fmt::format("{} of {} is not known", theirs, section),
                            "the builder needs it");
    if (size == nullptr) value.set_mark(component.mark());
    model.members().push_back({std::string(ours), component.mark(), std::move(value)});
  }
  finish_sizes(model, component);
  reading.say("model", std::move(model), component);
}

// torchtune's Phi has query, key, value, gate and up apart, where transformers has them in two: what Llama's keys describe.
void say_phi_apart(ConfigReader& reading, std::string_view preset, const Value& component) {
  Value run = Value::table();
  run.members().push_back({"model", component.mark(), Value::string(std::string(preset))});
  Value model = begin_sizes("llama", component);
  const Value config = model_config(run);
  for (const auto& [theirs, ours] : kSizes)
    if (const Value* size = config.find(ours)) {
      model.members().push_back({std::string(ours), component.mark(), *size});
      model.members().back().value.set_mark(component.mark());
    }
  finish_sizes(model, component);
  reading.say("model", std::move(model), component);
}

void say_sizes_of(ConfigReader& reading, const std::string& section, const std::string& name,
                  bool adapter, const Value& component) {
  if (const auto preset = ours_of(kBuilders, name)) {
    if (adapter && name.starts_with("phi")) return say_phi_apart(reading, *preset, component);
    return reading.say("model", *preset, component);
  }
  if (const auto family = ours_of(kComponents, name))
    return say_component(reading, section, *family, component);
  if (name.find("vision") != std::string::npos || name.find("clip") != std::string::npos ||
      name.find("flamingo") != std::string::npos ||
      name.find("early_fusion") != std::string::npos) {
    reading.lacks("model", fmt::format("{} has a tower of vision beside the text's layers", name));
    return reading.unweighed(component, name,
                             "layers that attend to a tower of vision are not described here");
  }
  reading.refuse(component, fmt::format("the builder {} is not known", name),
                 "its sizes stand in torchtune's code");
}

void read_adapter(ConfigReader& reading, const std::string& section, bool quantised,
                  bool decomposed, const Value& component) {
  const auto path = [&](std::string_view key) { return fmt::format("{}.{}", section, key); };
  const Value* dora = reading.on(path("use_dora"));
  reading.say("adapter.method", dora != nullptr || decomposed ? "dora" : "lora", component);
  if (const Value* rank = reading.take(path("lora_rank")))
    reading.say("adapter.rank", *rank, *rank);
  else
    reading.take_default("adapter.rank", Value::integer(8), "the builders' default rank");
  if (const Value* alpha = reading.take(path("lora_alpha")))
    reading.say("adapter.alpha", *alpha, *alpha);
  if (const Value* dropout = reading.take(path("lora_dropout")))
    reading.say("adapter.dropout", *dropout, *dropout);
  Value targets = Value::array();
  const Value* attention = reading.take(path("lora_attn_modules"));
  if (attention != nullptr && attention->is_array())
    for (const Value& module : attention->items())
      targets.items().push_back(
          Value::string(word_of(module) == "output_proj" ? "o_proj" : word_of(module)));
  if (reading.is(path("apply_lora_to_mlp")))
    for (const char* module : {"gate_proj", "up_proj", "down_proj"})
      targets.items().push_back(Value::string(module));
  if (reading.is(path("apply_lora_to_output"))) targets.items().push_back(Value::string("lm_head"));
  if (!targets.items().empty())
    reading.say("adapter.target_modules", std::move(targets),
                attention == nullptr ? component : *attention);
  const Value* quantise = reading.on(path("quantize_base"));
  if (!quantised && quantise == nullptr) return;
  reading.say("adapter.base", "nf4", quantise == nullptr ? component : *quantise);
  reading.take_default("adapter.double_quantization", Value::boolean(true),
                       "torchao's NF4 quantises its constants");
}

}  // namespace

void read_torchtune_model(ConfigReader& reading, const std::string& section) {
  const Value* component = reading.take(fmt::format("{}._component_", section));
  if (component == nullptr) return reading.lacks("model", "no model._component_");
  std::string name = word_of(*component);
  name.erase(0, name.rfind('.') == std::string::npos ? 0 : name.rfind('.') + 1);
  bool adapter = false;
  bool quantised = false;
  bool decomposed = false;
  for (const std::string_view prefix : {"qlora_", "qdora_", "lora_", "dora_"})
    if (name.starts_with(prefix)) {
      adapter = true;
      quantised = prefix.starts_with("q");
      decomposed = prefix.ends_with("dora_");
      name.erase(0, prefix.size());
      break;
    }
  // Sizes of the base model and of what was made of it are one.
  for (const std::string_view suffix : {"_instruct", "_base"})
    if (name.ends_with(suffix)) name.resize(name.size() - suffix.size());
  say_sizes_of(reading, section, name, adapter, *component);
  if (adapter) read_adapter(reading, section, quantised, decomposed, *component);
}

}  // namespace steelyard
