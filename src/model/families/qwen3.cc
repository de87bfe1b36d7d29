// Qwen3: Llama with a norm over each head of query and key, shared by the heads, before the rotary
// embedding.
#include <utility>

#include "model/decoder.h"
#include "model/families/families.h"

namespace steelyard {

Architecture read_qwen3(Config& config) {
  const DecoderShape shape = read_decoder_shape(config, {.key_value_heads = 32, .head_width = 128});
  const Checked width = config.size("intermediate_size");
  const bool bias = config.flag_or("attention_bias", false);
  const double dropout = config.fraction_or("attention_dropout", 0);
  const Activation activation = config.activation_or("hidden_act", Activation::kSilu);
  const LateWindow late = read_late_window(config, shape.layers);

  const auto layer_with = [&](bool windowed) {
    Layer layer;
    GroupedAttention attention = add_attention(
        layer.parameters, shape.heads,
        {.bias = bias, .output_bias = bias, .query_key_norm = NormKind::kRms, .dropout = dropout});
    if (windowed) attention.sliding_window = late.width;
    layer.attention = std::move(attention);
    layer.mlp =
        add_gated_mlp(layer.parameters, "mlp.", shape.hidden, width, {.activation = activation});
    layer.norms = add_pre_norms(layer.parameters, NormKind::kRms, shape.hidden);
    return layer;
  };

  Architecture model = begin_decoder(shape, {});
  set_layers(model, {layer_with(false), layer_with(true)},
             {late.windowed.begin(), late.windowed.end()});
  return model;
}

}  // namespace steelyard
