#include "formats/launch/megatron_model.h"

#include <fmt/format.h>

#include "formats/launch/hugging_face.h"
#include "model/catalogue.h"

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

// [0]*3+[1]*58: how many dense layers stand first.
std::int64_t dense_first(std::string_view pattern) {
  if (!pattern.starts_with("([0]*") && !pattern.starts_with("[0]*")) return 0;
  const std::size_t from = pattern.find('*') + 1;
  const std::size_t end = std::min(pattern.find_first_not_of("0123456789", from), pattern.size());
  const Value number = typed_value(pattern.substr(from, end - from));
  return number.is_integer() ? number.as_integer() : 0;
}

}  // namespace

void read_megatron_model(ConfigReader& reading) {
  const Value* layers = reading.take("num_layers");
  const Value* hidden = reading.take("hidden_size");
  const Value* heads = reading.take("num_attention_heads");
  if (layers == nullptr && hidden == nullptr) return;
  const Value& at = layers == nullptr ? *hidden : *layers;
  Value model = Value::table();
  const auto put = [&](std::string_view key, Value value, const Value* from = nullptr) {
    value.set_mark(from == nullptr ? at.mark() : from->mark());
    model.members().push_back(
        {std::string(key), from == nullptr ? at.mark() : from->mark(), std::move(value)});
  };
  const auto number = [&](std::string_view flag) -> std::optional<std::int64_t> {
    return reading.count(flag);
  };
  const auto size = [&](std::string_view key, const Value* value) {
    if (value == nullptr || reading.asks("model", *value)) return;
    if (const auto count = count_of(*value))
      put(key, Value::integer(*count), value);
    else
      reading.refuse(*value, fmt::format("{} is not a whole number", key),
                     "expected a whole number");
  };
  const bool gated = reading.is("swiglu");
  std::string position = reading.is("use_rotary_position_embeddings")
                             ? std::string("rope")
                             : reading.word("position_embedding_type").value_or("learned_absolute");
  if (position == "rotary") position = "rope";  // of forks
  if (position == "ALiBi") position = "alibi";
  reading.take("position_embedding_type");
  const bool rotary = position == "rope" || position == "yarn";
  const std::string norm = reading.word("normalization").value_or("LayerNorm");
  const bool biased = !reading.is("disable_bias_linear");
  const bool query_bias = reading.is("add_qkv_bias");
  const Value* squared =
      reading.is("squared_relu") ? reading.theirs().find("squared_relu") : nullptr;
  reading.is("apply_layernorm_1p");  // 1 + weight inside the norm's kernel
  const bool query_norm = reading.is("qk_layernorm");
  const bool tied = !reading.is("untie_embeddings_and_output_weights");
  const auto experts = number("num_experts");
  const bool latent = reading.is("multi_latent_attention");
  const std::int64_t width = hidden == nullptr ? 0 : count_of(*hidden).value_or(0);
  for (const char* unread : {"quick_geglu", "hybrid_layer_pattern", "hybrid_override_pattern",
                             "spec", "experimental_attention_variant", "linear_attention_freq"})
    if (const Value* value = reading.take(unread))
      reading.refuse(*value, fmt::format("--{} is not read", unread),
                     "its tensors are not described here");
  const bool sloped = position == "alibi";  // of Megatron-DeepSpeed
  if (!rotary && !sloped && position != "learned_absolute")
    reading.refuse(*reading.theirs().find("position_embedding_type"),
                   fmt::format("position embeddings \"{}\" are not read", position),
                   "rope, yarn, learned_absolute and alibi are");
  reading.is("embed_layernorm");

  if (squared != nullptr &&
      (gated || latent || experts.value_or(0) > 0 || !rotary || norm != "LayerNorm"))
    reading.refuse(*squared, "--squared-relu is read beside rotary positions and LayerNorm alone",
                   "as in Nemotron's dense models");

  if (latent) {
    put("model_type", Value::string("deepseek_v3"));
  } else if (experts.value_or(0) > 0) {
    put("model_type", Value::string(query_norm ? "qwen3_moe" : "mixtral"));
  } else if (gated && rotary) {
    put("model_type", Value::string(query_norm              ? "qwen3"
                                    : query_bias && !biased ? "qwen2"
                                                            : "llama"));
  } else if (!gated && sloped) {
    put("model_type", Value::string("bloom"));
  } else if (!gated && !rotary) {
    put("model_type", Value::string("gpt2"));
  } else if (!gated && rotary && norm == "LayerNorm") {
    put("model_type", Value::string(squared != nullptr ? "nemotron" : "gpt_neox"));
  } else {
    reading.refuse(at, "a mix of position embeddings and feed-forward that is not read",
                   gated ? "--swiglu with learned positions"
                         : "rotary positions without --swiglu and LayerNorm");
    return;
  }
  if ((gated || experts) && norm != "RMSNorm")
    reading.warn(at, "LayerNorm with --swiglu", "weighed as RMSNorm, which keeps a little less");
  size("num_hidden_layers", layers);
  size("hidden_size", hidden);
  size("num_attention_heads", heads);
  const auto groups = number("num_query_groups");
  const std::string family = model.find("model_type")->as_string();
  const bool whole_heads = family == "gpt2" || family == "bloom";  // no groups, no width of a head
  if (!latent && !whole_heads) {
    // Groups count only with --group-query-attention; else each head has its own.
    const bool grouped = reading.is("group_query_attention");
    if (grouped && groups)
      put("num_key_value_heads", Value::integer(*groups),
          reading.theirs().find("num_query_groups"));
    else if (heads != nullptr)
      size("num_key_value_heads", heads);
  }
  const std::int64_t standard =
      gated ? static_cast<std::int64_t>(static_cast<double>(4 * width) * 2 / 3 / 64) * 64
            : 4 * width;
  const std::int64_t feed_forward = number("ffn_hidden_size").value_or(standard);
  const std::int64_t expert_width = number("moe_ffn_hidden_size").value_or(feed_forward);
  const Value* ffn = reading.theirs().find("ffn_hidden_size");
  if (family == "mixtral")
    put("intermediate_size", Value::integer(expert_width),
        reading.theirs().find("moe_ffn_hidden_size"));
  else
    put(whole_heads ? "n_inner" : "intermediate_size", Value::integer(feed_forward), ffn);
  if (family == "bloom" && feed_forward != 4 * width)
    reading.refuse(ffn == nullptr ? at : *ffn, "alibi beside a feed-forward of another width",
                   "four times the hidden size is read");
  if (!latent)
    if (const auto channels = number("kv_channels"); channels && !whole_heads)
      put("head_dim", Value::integer(*channels), reading.theirs().find("kv_channels"));
  size("max_position_embeddings", reading.take("max_position_embeddings"));
  if (experts.value_or(0) > 0) {
    const std::int64_t top = number("moe_router_topk").value_or(2);
    put(family == "mixtral"     ? "num_local_experts"
        : family == "qwen3_moe" ? "num_experts"
                                : "n_routed_experts",
        Value::integer(*experts), reading.theirs().find("num_experts"));
    put("num_experts_per_tok", Value::integer(top), reading.theirs().find("moe_router_topk"));
    if (family != "mixtral") put("moe_intermediate_size", Value::integer(expert_width));
    const auto shared = number("moe_shared_expert_intermediate_size");
    if (shared && family == "deepseek_v3" && expert_width > 0)
      put("n_shared_experts", Value::integer(*shared / expert_width));
    else if (shared && family != "deepseek_v3")
      reading.refuse(*reading.theirs().find("moe_shared_expert_intermediate_size"),
                     "shared experts beside these layers are not read",
                     "with --multi-latent-attention they are");
    if (const Value* frequency = reading.take("moe_layer_freq")) {
      const std::int64_t first = dense_first(word_of(*frequency));
      if (family == "deepseek_v3")
        put("first_k_dense_replace", Value::integer(first), frequency);
      else if (word_of(*frequency) != "1" && first != 0)
        reading.refuse(*frequency, "dense layers among those with experts are not read here", {});
    } else if (family == "deepseek_v3") {
      put("first_k_dense_replace", Value::integer(0));
    }
  }
  if (latent) {
    if (const auto rank = number("q_lora_rank")) put("q_lora_rank", Value::integer(*rank));
    put("kv_lora_rank", Value::integer(number("kv_lora_rank").value_or(32)));
    put("qk_nope_head_dim", Value::integer(number("qk_head_dim").value_or(128)));
    put("qk_rope_head_dim", Value::integer(number("qk_pos_emb_head_dim").value_or(64)));
    put("v_head_dim", Value::integer(number("v_head_dim").value_or(128)));
  }
  if (family == "llama") {
    put("attention_bias", Value::boolean(biased));
    put("mlp_bias", Value::boolean(biased));
  }
  if (family == "nemotron") {
    put("attention_bias", Value::boolean(biased));
    put("mlp_bias", Value::boolean(biased));
  }
  if (family == "gpt_neox" || family == "nemotron")
    put(family == "nemotron" ? "partial_rotary_factor" : "rotary_pct", Value::number([&] {
          const Value* part = reading.take("rotary_percent");
          return part != nullptr && part->is_number() ? part->as_number() : 1.0;
        }()));
  if (const Value* epsilon = reading.take("norm_epsilon"); epsilon != nullptr)
    put(whole_heads            ? "layer_norm_epsilon"
        : family == "gpt_neox" ? "layer_norm_eps"
        : family == "nemotron" ? "norm_eps"
                               : "rms_norm_eps",
        *epsilon, epsilon);
  put("tie_word_embeddings", Value::boolean(tied));
  const Value* rows = reading.take("vocab_size");
  if (rows == nullptr) rows = reading.take("padded_vocab_size");
  if (rows == nullptr) rows = reading.take("pad_vocab_size_to");  // Megatron-DeepSpeed
  if (rows != nullptr) {
    size("vocab_size", rows);
  } else {
    const std::string tokenizer = reading.theirs().find("tokenizer_type") == nullptr
                                      ? ""
                                      : word_of(*reading.theirs().find("tokenizer_type"));
    std::int64_t known = 0;
    // pretrain_gpt.py's own default, which reads these files, is GPT-2's.
    const bool unnamed = tokenizer.empty() && reading.theirs().find("merge_file") != nullptr;
    if (unnamed || tokenizer == "GPT2BPETokenizer") known = 50257;
    if (tokenizer == "Llama2Tokenizer") known = 32000;
    const Value* which = reading.theirs().find("tokenizer_model");
    if (which == nullptr) which = reading.theirs().find("tokenizer_name_or_path");
    if (known == 0 && which != nullptr && tokenizer.find("HuggingFace") != std::string::npos)
      if (const auto preset = preset_like(word_of(*which)))
        if (const auto found = find_preset(*preset))
          if (const Value* size_of_it = found->config.find("vocab_size"))
            known = count_of(*size_of_it).value_or(0);
    if (known > 0) {
      put("vocab_size", Value::integer(known));
      reading.into().unsaid.push_back(
          {"model.vocab_size", std::to_string(known),
           unnamed ? std::string("of GPT2BPETokenizer, pretrain_gpt.py's default")
                   : "the vocabulary of " + (which == nullptr || tokenizer == "Llama2Tokenizer"
                                                 ? tokenizer
                                                 : word_of(*which))});
    } else {
      reading.lacks("model.vocab_size", "the tokenizer decides; --vocab-size says it");
    }
  }
  model.set_mark(at.mark());
  reading.say("model", std::move(model), at);
}

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
