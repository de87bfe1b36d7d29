// A model as Megatron-LM's flags: what read_megatron_model reads again.
#include <fmt/format.h>

#include <set>

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

// A model of Megatron's own composition (model type megatron_gpt), key by key as read_megatron_model takes its flags.
class OwnLayers {
 public:
  OwnLayers(ConfigWriter& writing, const Value& config) : writing_(writing), config_(config) {}

  void write() {
    put_positions();
    put_activation();
    const std::string norm = word("normalization", "LayerNorm");
    if (norm == "RMSNorm") writing_.put("normalization", norm);
    if (norm == "LayerNorm1P") on("apply_layernorm_1p");
    const bool biases = is("add_bias_linear", true);
    if (!biases) on("disable_bias_linear");
    if (is("add_qkv_bias", biases) && !biases) on("add_qkv_bias");
    if (!is("add_qkv_bias", biases) && biases)
      refuse("biases of the output and the MLP without those of the queries");
    if (is("qk_layernorm", false)) on("qk_layernorm");
    if (is("embedding_layernorm", false)) refuse("a norm behind the embedding");
    if (is("use_parallel_residual", false)) refuse("attention and MLP side by side");
    if (const Value* epsilon = config_.find("layer_norm_eps"))
      writing_.put("norm_epsilon", *epsilon);
    if (!is("tie_word_embeddings", true)) on("untie_embeddings_and_output_weights");
    put_latent();
    put_experts();
  }

 private:
  std::string word(std::string_view key, std::string_view otherwise) const {
    const Value* value = config_.find(key);
    return value == nullptr || value->is_null() ? std::string(otherwise) : word_of(*value);
  }
  bool is(std::string_view key, bool otherwise) const {
    const Value* value = config_.find(key);
    return value == nullptr ? otherwise : truth_of(*value).value_or(otherwise);
  }
  void on(std::string_view flag) { writing_.put(flag, Value::boolean(true)); }
  void size(std::string_view key, std::string_view flag) {
    if (const Value* value = sized(config_, {key})) writing_.put(flag, *value);
  }
  void refuse(std::string_view what) {
    writing_.refuse("model", fmt::format("Megatron-LM has no flag for {}", what));
  }

  void put_positions() {
    const std::string position = word("position_embedding_type", "learned_absolute");
    if (position == "alibi") return refuse("ALiBi, which is Megatron-DeepSpeed's");
    writing_.put("position_embedding_type", position);
    if (position == "rope") {
      size("rotary_pct", "rotary_percent");
      size("rope_theta", "rotary_base");
    }
  }

  void put_activation() {
    const bool gated = is("gated_linear_unit", false);
    const std::string activation = word("hidden_act", gated ? "silu" : "gelu_pytorch_tanh");
    static constexpr std::string_view kGated = "silu=swiglu|quick_gelu=quick_geglu";
    static constexpr std::string_view kPlain = "gelu_pytorch_tanh=|relu2=squared_relu";
    const auto flag = ours_of(gated ? kGated : kPlain, activation);
    if (!flag)
      refuse(fmt::format("{}{}", activation, gated ? " behind a gate" : ""));
    else if (!flag->empty())
      on(*flag);
  }

  void put_latent() {
    if (sized(config_, {"kv_lora_rank"}) == nullptr) return;
    on("multi_latent_attention");
    size("q_lora_rank", "q_lora_rank");
    size("kv_lora_rank", "kv_lora_rank");
    size("qk_nope_head_dim", "qk_head_dim");
    size("qk_rope_head_dim", "qk_pos_emb_head_dim");
    size("v_head_dim", "v_head_dim");
  }

  void put_experts() {
    if (sized(config_, {"num_experts"}) == nullptr) return;
    size("num_experts", "num_experts");
    size("num_experts_per_tok", "moe_router_topk");
    size("moe_intermediate_size", "moe_ffn_hidden_size");
    size("shared_expert_intermediate_size", "moe_shared_expert_intermediate_size");
    if (is("shared_expert_gate", false)) on("moe_shared_expert_gate");
    if (word("scoring_func", "softmax") == "sigmoid")
      writing_.put("moe_router_score_function", "sigmoid");
    if (is("router_in_float32", false)) writing_.put("moe_router_dtype", "fp32");
    const Value* dense = config_.find("mlp_only_layers");
    const Value* layers = config_.find("num_hidden_layers");
    if (dense != nullptr && dense->is_array() && !dense->items().empty() && layers != nullptr)
      writing_.put("moe_layer_freq", frequency_of(*dense, count_of(*layers).value_or(0)),
                   "which layers have experts");
    on("moe_grouped_gemm");
  }

  // "([0]*2+[1]*22)": runs of layers without and with experts.
  static std::string frequency_of(const Value& dense, std::int64_t layers) {
    std::set<std::int64_t> without;
    for (const Value& layer : dense.items()) without.insert(count_of(layer).value_or(-1));
    std::string runs;
    for (std::int64_t from = 0; from < layers;) {
      std::int64_t end = from;
      while (end < layers && without.contains(end) == without.contains(from)) ++end;
      runs += fmt::format("{}[{}]*{}", runs.empty() ? "" : "+", without.contains(from) ? 0 : 1,
                          end - from);
      from = end;
    }
    return fmt::format("({})", runs);
  }

  ConfigWriter& writing_;
  const Value& config_;
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
  const bool own = type != nullptr && word_of(*type) == "megatron_gpt";
  if (family == nullptr && !own)
    return writing.refuse(
        "model",
        fmt::format("flags for the family {} are not written",
                    type == nullptr ? "" : word_of(*type)),
        "llama, mistral, qwen2, qwen3, mixtral, qwen3_moe, gpt2 and megatron_gpt are");
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
  if (own) return OwnLayers(writing, config).write();
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
