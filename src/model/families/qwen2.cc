// Qwen2 and 2.5: Llama with biases on query, key and value (never on the output; no key says so).
#include <utility>

#include "model/decoder.h"
#include "model/families/families.h"

namespace steelyard {

Architecture read_qwen2(Config& config) {
  const DecoderShape shape = read_decoder_shape(config, {.key_value_heads = 32});
  const Checked width = config.size("intermediate_size");
  const double dropout = config.fraction_or("attention_dropout", 0);
  const Activation activation = config.activation_or("hidden_act", Activation::kSilu);
  const LateWindow late = read_late_window(config, shape.layers);

  const auto layer_with = [&](bool windowed) {
    Layer layer;
    GroupedAttention attention =
        add_attention(layer.parameters, shape.heads, {.bias = true, .dropout = dropout});
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
