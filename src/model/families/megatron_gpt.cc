// GPT as Megatron-LM composes it (megatron/core/models/gpt): a norm before each sublayer, and any of its position embeddings,
// norms, activations, biases and experts together. A config.json of it has these keys:
//
//   normalization          "LayerNorm", "LayerNorm1P" or "RMSNorm"
//   position_embedding_type "rope" (with rotary_pct), "learned_absolute", "alibi" or "none"
//   gated_linear_unit, hidden_act, add_bias_linear, add_qkv_bias, qk_layernorm, embedding_layernorm
//   num_experts, num_experts_per_tok, moe_intermediate_size, mlp_only_layers, shared_expert_intermediate_size,
//   shared_expert_gate, scoring_func, router_in_float32
//   kv_lora_rank           latent attention, with the other keys of deepseek_v3
#include <fmt/format.h>

#include <string>
#include <utility>

#include "model/decoder.h"
#include "model/families/families.h"
#include "model/families/latent_attention.h"

namespace steelyard {
namespace {

struct MegatronShape {
  DecoderShape decoder;
  std::string position;
  NormKind norm = NormKind::kLayerNorm;
  bool gated = false, biases = true, query_bias = true, query_key_norm = false;
  bool parallel_residual = false;
  Activation activation = Activation::kGeluTanh;
  double hidden_dropout = 0, attention_dropout = 0;
};

// One of a few words; the first where the key is absent.
std::string one_of(Config& config, std::string_view key,
                   std::initializer_list<std::string_view> words) {
  const auto word = config.find_word(key);
  if (!word) return std::string(*words.begin());
  std::string all;
  for (const std::string_view known : words) {
    if (*word == known) return *word;
    all += fmt::format("{}\"{}\"", all.empty() ? "" : ", ", known);
  }
  config.refuse(key, "E303", fmt::format("\"{}\" is \"{}\", which is not known", key, *word),
                fmt::format("expected one of {}", all));
  return std::string(*words.begin());
}

MegatronShape read_megatron_shape(Config& config) {
  MegatronShape shape;
  shape.position =
      one_of(config, "position_embedding_type", {"learned_absolute", "rope", "alibi", "none"});
  const bool rotary = shape.position == "rope";
  const bool latent = config.is_present("kv_lora_rank");
  // Latent attention has head widths of its own.
  shape.decoder = read_decoder_shape(
      config, {.head_width = latent ? 1 : 0,
               .rotary_fraction = rotary ? config.fraction_or("rotary_pct", 1) : 0,
               .tied = true});
  const std::string norm = one_of(config, "normalization", {"LayerNorm", "LayerNorm1P", "RMSNorm"});
  shape.norm = norm == "RMSNorm"     ? NormKind::kRms
               : norm == "LayerNorm" ? NormKind::kLayerNorm
                                     : NormKind::kLayerNormUnitOffset;
  shape.gated = config.flag_or("gated_linear_unit", false);
  shape.activation =
      config.activation_or("hidden_act", shape.gated ? Activation::kSilu : Activation::kGeluTanh);
  shape.biases = config.flag_or("add_bias_linear", true);
  shape.query_bias = config.flag_or("add_qkv_bias", shape.biases);
  shape.query_key_norm = config.flag_or("qk_layernorm", false);
  shape.parallel_residual = config.flag_or("use_parallel_residual", false);
  shape.hidden_dropout = config.fraction_or("hidden_dropout", 0);
  shape.attention_dropout = config.fraction_or("attention_dropout", 0);
  return shape;
}

// The experts of a layer, and one that sees every token beside them.
struct MegatronExperts {
  ExpertOptions routed;
  Checked shared_width = 0;
  bool shared_gate = false, sigmoid = false, router_in_float32 = false;
};

MegatronExperts read_megatron_experts(Config& config, const MegatronShape& shape,
                                      Checked dense_width) {
  MegatronExperts experts;
  experts.routed = read_expert_counts(config, config.size_or("moe_intermediate_size", dense_width));
  experts.routed.activation = shape.activation;
  experts.routed.gated = shape.gated;
  experts.routed.biases = shape.biases;
  experts.shared_width = config.count_or("shared_expert_intermediate_size", 0);
  experts.shared_gate = config.flag_or("shared_expert_gate", false);
  experts.sigmoid = one_of(config, "scoring_func", {"softmax", "sigmoid"}) == "sigmoid";
  experts.router_in_float32 = config.flag_or("router_in_float32", false);
  return experts;
}

DenseMlp add_feed_forward(Tensors& tensors, std::string_view prefix, const MegatronShape& shape,
                          Checked width, bool biases) {
  const MlpOptions options{.bias = biases, .activation = shape.activation};
  if (shape.gated) return add_gated_mlp(tensors, prefix, shape.decoder.hidden, width, options);
  return add_plain_mlp(tensors, std::string(prefix) + "up_proj", std::string(prefix) + "down_proj",
                       shape.decoder.hidden, width, options);
}

ExpertMlp add_megatron_experts(Tensors& tensors, const MegatronShape& shape,
                               const MegatronExperts& experts) {
  ExpertMlp mlp = add_separate_experts(tensors, shape.decoder.hidden, experts.routed);
  mlp.sigmoid_scores = experts.sigmoid;
  mlp.router_in_float32 = experts.router_in_float32;
  mlp.routing.divided_by_sum = true;
  if (experts.shared_width > Checked(0)) {
    // shared_experts.py: without biases, whatever the other layers have.
    mlp.shared =
        add_feed_forward(tensors, "mlp.shared_experts.", shape, experts.shared_width, false);
    if (experts.shared_gate)
      mlp.shared_gate = add_linear(tensors, "mlp.shared_expert_gate", shape.decoder.hidden, 1,
                                   {.split = Split::kNone});
  }
  return mlp;
}

}  // namespace

Architecture read_megatron_gpt(Config& config) {
  const MegatronShape shape = read_megatron_shape(config);
  const Checked hidden = shape.decoder.hidden;
  const bool latent = config.is_present("kv_lora_rank");
  LatentShape latent_shape;
  if (latent) {
    latent_shape = read_latent_shape(config, hidden, shape.decoder.heads.heads);
    if (!config.is_present("q_lora_rank")) latent_shape.query_rank = 0;
    latent_shape.norm = shape.norm;
    latent_shape.bias = false;
  }
  const Checked width = config.find_size("intermediate_size").value_or(Checked(4) * hidden);
  const bool has_experts = config.is_present("num_experts");
  MegatronExperts experts;
  if (has_experts) experts = read_megatron_experts(config, shape, width);

  const auto layer_with = [&](bool with_experts) {
    Layer layer;
    layer.arrangement =
        shape.parallel_residual ? Arrangement::kParallelTwoNorms : Arrangement::kPreNorm;
    const Norm before_attention = add_norm(layer.parameters, "input_layernorm", shape.norm, hidden);
    if (latent) {
      layer.attention = add_latent_attention(layer.parameters, latent_shape);
    } else {
      AttentionOptions options{.bias = shape.query_bias, .output_bias = shape.biases};
      if (shape.query_key_norm) options.query_key_norm = shape.norm;
      options.dropout = shape.attention_dropout;
      GroupedAttention attention = add_attention(layer.parameters, shape.decoder.heads, options);
      attention.alibi = shape.position == "alibi";
      layer.attention = std::move(attention);
    }
    const Norm before_mlp =
        add_norm(layer.parameters, "post_attention_layernorm", shape.norm, hidden);
    if (with_experts)
      layer.mlp = add_megatron_experts(layer.parameters, shape, experts);
    else
      layer.mlp = add_feed_forward(layer.parameters, "mlp.", shape, width, shape.biases);
    layer.norms = {before_attention, before_mlp};
    layer.residual_dropout = shape.hidden_dropout;
    return layer;
  };

  Architecture model = begin_decoder(shape.decoder, {.final_norm_kind = shape.norm});
  if (config.flag_or("embedding_layernorm", false))
    set_embedding_norm(
        model, add_norm(model.embedding_parameters, "model.embed_layernorm", shape.norm, hidden));
  if (shape.position == "learned_absolute") {
    model.learned_positions = true;
    add_learned_positions(model, "model.embed_positions.weight",
                          config.size("max_position_embeddings"));
  }
  model.embedding_dropout = shape.hidden_dropout;
  if (!has_experts) {
    set_layers(model, layer_with(false));
    return model;
  }
  std::vector<int> kinds(static_cast<std::size_t>(shape.decoder.layers.value()), 0);
  if (const auto dense = config.find_numbers("mlp_only_layers"))
    for (const std::int64_t layer : *dense)
      if (layer >= 0 && layer < shape.decoder.layers.value())
        kinds[static_cast<std::size_t>(layer)] = 1;
  set_layers(model, {layer_with(true), layer_with(false)}, std::move(kinds));
  return model;
}

}  // namespace steelyard
