// EXAONE 4: norms after the sublayers and over each head of query and key; with windows, every
// fourth layer is whole and has no rotary embedding.
#include <utility>

#include "model/decoder.h"
#include "model/families/families.h"

namespace steelyard {

Architecture read_exaone4(Config& config) {
  const DecoderShape shape = read_decoder_shape(config, {.key_value_heads = 32});
  const Checked width = config.size("intermediate_size");
  const double dropout = config.fraction_or("attention_dropout", 0);
  const Activation activation = config.activation_or("hidden_act", Activation::kSilu);
  const auto window = read_window(config, "sliding_window", 4096);
  // A number, or a pattern of letters as in "LLLG": its length is the number.
  std::int64_t every = 4;
  if (config.is_word("sliding_window_pattern")) {
    every = static_cast<std::int64_t>(config.find_word("sliding_window_pattern")->size());
  } else {
    every = config.count_or("sliding_window_pattern", 4).value();
  }
  const std::vector<bool> windowed = windowed_layers(config, shape.layers, [&](std::int64_t layer) {
    return window.has_value() && every > 0 && (layer + 1) % every != 0;
  });

  const auto layer_with = [&](bool local) {
    Layer layer;
    layer.arrangement = Arrangement::kOutputNorm;
    HeadShape heads = shape.heads;
    if (window && !local) heads.rotary_width = 0;
    GroupedAttention attention = add_attention(
        layer.parameters, heads, {.query_key_norm = NormKind::kRms, .dropout = dropout});
    if (local) attention.sliding_window = window;
    layer.attention = std::move(attention);
    layer.mlp =
        add_gated_mlp(layer.parameters, "mlp.", shape.hidden, width, {.activation = activation});
    layer.norms = {
        add_norm(layer.parameters, "post_attention_layernorm", NormKind::kRms, shape.hidden),
        add_norm(layer.parameters, "post_feedforward_layernorm", NormKind::kRms, shape.hidden)};
    return layer;
  };

  Architecture model = begin_decoder(shape, {});
  set_layers(model, {layer_with(false), layer_with(true)}, {windowed.begin(), windowed.end()});
  return model;
}

}  // namespace steelyard
