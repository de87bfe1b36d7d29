// SmolLM3: Llama with a tied head, and every fourth layer without rotary embedding.
#include <utility>

#include "model/decoder.h"
#include "model/families/families.h"

namespace steelyard {

Architecture read_smollm3(Config& config) {
  const DecoderShape shape = read_decoder_shape(config, {.key_value_heads = 4, .tied = true});
  const Checked width = config.size("intermediate_size");
  const bool bias = config.flag_or("attention_bias", false);
  const bool mlp_bias = config.flag_or("mlp_bias", false);
  const double dropout = config.fraction_or("attention_dropout", 0);
  const Activation activation = config.activation_or("hidden_act", Activation::kSilu);
  const std::vector<bool> rotated = rotated_layers(config, shape.layers);
  const bool windows = config.flag_or("use_sliding_window", false);
  const auto window = windows ? read_window(config, "sliding_window", 0) : std::nullopt;
  config.know({"sliding_window", "max_window_layers"});
  // Windows, where there are any, stand in the layers without rotary embedding.
  const std::vector<bool> windowed = windowed_layers(config, shape.layers, [&](std::int64_t layer) {
    return window.has_value() && !rotated[static_cast<std::size_t>(layer)];
  });

  const auto layer_with = [&](bool with_rotary, bool local) {
    Layer layer;
    HeadShape heads = shape.heads;
    if (!with_rotary) heads.rotary_width = 0;
    GroupedAttention attention = add_attention(
        layer.parameters, heads, {.bias = bias, .output_bias = bias, .dropout = dropout});
    if (local) attention.sliding_window = window;
    layer.attention = std::move(attention);
    layer.mlp = add_gated_mlp(layer.parameters, "mlp.", shape.hidden, width,
                              {.bias = mlp_bias, .activation = activation});
    layer.norms = {
        add_norm(layer.parameters, "input_layernorm", NormKind::kRms, shape.hidden),
        add_norm(layer.parameters, "post_attention_layernorm", NormKind::kRms, shape.hidden)};
    return layer;
  };

  std::vector<int> kinds;
  for (std::size_t i = 0; i < rotated.size(); ++i)
    kinds.push_back((rotated[i] ? 1 : 0) + (windowed[i] ? 2 : 0));
  Architecture model = begin_decoder(shape, {});
  set_layers(model,
             {layer_with(false, false), layer_with(true, false), layer_with(false, true),
              layer_with(true, true)},
             std::move(kinds));
  return model;
}

}  // namespace steelyard
