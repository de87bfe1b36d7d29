// A model as Megatron-LM's flags: what read_megatron_model reads again.
#include <fmt/format.h>

#include "formats/launch/hugging_face.h"
#include "formats/launch/megatron_model.h"

namespace steelyard {
namespace {

// A size of config.json under the names that families give it.
const Value* sized(const Value& config, std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names)
    if (const Value* value = config.find(name); value != nullptr && !value->is_null()) return value;
  return nullptr;
}

// The families whose layers Megatron's GPT has, with what each needs said.
struct Family {
  std::string_view model_type;
  bool gated = true;  // --swiglu, RMSNorm, no biases
  bool rotary = true;
  bool query_bias = false;  // --add-qkv-bias
  bool query_norm = false;  // --qk-layernorm
  bool experts = false;
};
constexpr Family kFamilies[] = {
    {"llama"},
    {"mistral"},
    {"qwen2", true, true, true},
    {"qwen3", true, true, false, true},
    {"mixtral", true, true, false, false, true},
    {"qwen3_moe", true, true, false, true, true},
    {"gpt2", false, false},
};

}  // namespace

void write_megatron_model(ConfigWriter& writing) {
  const Value config = model_config(writing.run());
  writing.take("model");
  if (!config.is_table())
    return writing.refuse("model", "the sizes of this model are not known",
                          "a preset, or a table of config.json's keys");
  const Value* type = config.find("model_type");
  const Family* family = nullptr;
  for (const Family& known : kFamilies)
    if (type != nullptr && word_of(*type) == known.model_type) family = &known;
  if (family == nullptr)
    return writing.refuse("model",
                          fmt::format("flags for the family {} are not written",
                                      type == nullptr ? "" : word_of(*type)),
                          "llama, mistral, qwen2, qwen3, mixtral, qwen3_moe and gpt2 are");
  const auto put = [&](std::string_view flag, const Value* value) {
    if (value != nullptr) writing.put(flag, Value::integer(count_of(*value).value_or(0)));
  };
  const auto on = [&](std::string_view flag) { writing.put(flag, Value::boolean(true)); };
  const Value* heads = sized(config, {"num_attention_heads", "n_head"});
  const Value* groups = sized(config, {"num_key_value_heads"});
  const Value* hidden = sized(config, {"hidden_size", "n_embd"});
  put("num_layers", sized(config, {"num_hidden_layers", "n_layer"}));
  put("hidden_size", hidden);
  put("num_attention_heads", heads);
  if (groups != nullptr && heads != nullptr && count_of(*groups) != count_of(*heads)) {
    on("group_query_attention");
    put("num_query_groups", groups);
  }
  const Value* inner = sized(config, {"intermediate_size", "n_inner"});
  if (inner != nullptr)
    put("ffn_hidden_size", inner);
  else if (hidden != nullptr)
    writing.put("ffn_hidden_size", Value::integer(4 * count_of(*hidden).value_or(0)));
  put("kv_channels", sized(config, {"head_dim"}));
  put("max_position_embeddings", sized(config, {"max_position_embeddings", "n_positions"}));
  put("vocab_size", sized(config, {"vocab_size"}));
  if (family->rotary) {
    writing.put("position_embedding_type", "rope");
    if (const Value* base = sized(config, {"rope_theta"})) {
      put("rotary_base", base);
    }
  } else {
    writing.put("position_embedding_type", "learned_absolute");
  }
  if (family->gated) {
    on("swiglu");
    writing.put("normalization", "RMSNorm");
    const Value* bias = sized(config, {"attention_bias"});
    if (bias == nullptr || !truth_of(*bias).value_or(false)) on("disable_bias_linear");
  }
  if (const Value* epsilon = sized(config, {"rms_norm_eps", "layer_norm_epsilon"}))
    writing.put("norm_epsilon", *epsilon);
  if (family->query_bias) on("add_qkv_bias");
  if (family->query_norm) on("qk_layernorm");
  const Value* tied = sized(config, {"tie_word_embeddings"});
  const bool ties =
      tied == nullptr ? family->model_type == "gpt2" : truth_of(*tied).value_or(false);
  if (!ties) on("untie_embeddings_and_output_weights");
  if (family->experts) {
    put("num_experts", sized(config, {"num_local_experts", "num_experts"}));
    put("moe_router_topk", sized(config, {"num_experts_per_tok"}));
    put("moe_ffn_hidden_size", sized(config, {"moe_intermediate_size", "intermediate_size"}));
    on("moe_grouped_gemm");
  }
}

}  // namespace steelyard
