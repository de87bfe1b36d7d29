// Llama 4 (text): dense and expert layers in turn, a shared expert, and every fourth layer without
// rotary embedding.
#include <cstddef>
#include <utility>

#include "model/decoder.h"
#include "model/families/families.h"

namespace steelyard {
namespace {

// moe_layers lists them; else every interleave_moe_layer_step-th layer, counted from 1.
std::vector<bool> expert_layers(Config& config, std::size_t layers) {
  std::vector<bool> sparse(layers, false);
  const auto step =
      static_cast<std::size_t>(config.size_or("interleave_moe_layer_step", 1).value());
  if (const auto listed = config.find_numbers("moe_layers")) {
    for (const std::int64_t layer : *listed)
      if (layer >= 0 && static_cast<std::size_t>(layer) < layers)
        sparse[static_cast<std::size_t>(layer)] = true;
  } else if (step > 0) {
    for (std::size_t layer = step; layer <= layers; layer += step) sparse[layer - 1] = true;
  }
  return sparse;
}

}  // namespace

Architecture read_llama4(Config& config) {
  const DecoderShape shape = read_decoder_shape(config, {.key_value_heads = 8, .head_width = 128});
  const auto layers = static_cast<std::size_t>(shape.layers.value());
  const std::vector<bool> sparse = expert_layers(config, layers);
  const std::vector<bool> rotated = rotated_layers(config, shape.layers);
  const Checked width = config.size("intermediate_size");
  const Checked dense_width = config.size("intermediate_size_mlp");
  ExpertOptions experts = read_expert_counts(config, width);
  experts.router = "feed_forward.router";
  experts.activation = config.activation_or("hidden_act", Activation::kSilu);
  const bool bias = config.flag_or("attention_bias", false);
  const bool norms = config.flag_or("use_qk_norm", true);
  const double dropout = config.fraction_or("attention_dropout", 0);
  const auto chunk = read_window(config, "attention_chunk_size", 8192);
  config.know({"layer_types", "attn_scale", "floor_scale", "for_llm_compressor"});

  const auto layer_with = [&](bool with_rotary, bool with_experts) {
    Layer layer;
    HeadShape heads = shape.heads;
    if (!with_rotary) heads.rotary_width = 0;
    AttentionOptions options{.bias = bias, .output_bias = bias, .dropout = dropout};
    if (norms && with_rotary) options.query_key_norm = NormKind::kWeightless;
    GroupedAttention attention = add_attention(layer.parameters, heads, options);
    // Chunks of the sequence attend to themselves: a window of that length is their upper bound.
    if (with_rotary) attention.sliding_window = chunk;
    layer.attention = std::move(attention);
    const MlpOptions mlp_options{.activation = experts.activation};
    if (with_experts) {
      ExpertMlp mlp = add_fused_experts(layer.parameters, "feed_forward.experts.", shape.hidden,
                                        experts, false);
      mlp.sigmoid_scores = true;
      mlp.every_expert_runs_every_token = true;
      mlp.shared = add_gated_mlp(layer.parameters, "feed_forward.shared_expert.", shape.hidden,
                                 width, mlp_options);
      layer.mlp = std::move(mlp);
    } else {
      layer.mlp =
          add_gated_mlp(layer.parameters, "feed_forward.", shape.hidden, dense_width, mlp_options);
    }
    layer.norms = {
        add_norm(layer.parameters, "input_layernorm", NormKind::kRms, shape.hidden),
        add_norm(layer.parameters, "post_attention_layernorm", NormKind::kRms, shape.hidden)};
    return layer;
  };

  std::vector<int> kinds;
  for (std::size_t i = 0; i < layers; ++i)
    kinds.push_back((rotated[i] ? 1 : 0) + (sparse[i] ? 2 : 0));
  Architecture model = begin_decoder(shape, {});
  set_layers(model,
             {layer_with(false, false), layer_with(true, false), layer_with(false, true),
              layer_with(true, true)},
             std::move(kinds));
  return model;
}

}  // namespace steelyard
