// Mistral: Llama without biases, eight key/value heads by default, and in v0.1 a window in every
// layer.
#include <utility>

#include "model/decoder.h"
#include "model/families/families.h"

namespace steelyard {

Architecture read_mistral(Config& config) {
  const DecoderShape shape = read_decoder_shape(config, {.key_value_heads = 8});
  const Checked width = config.size("intermediate_size");

  Layer layer;
  GroupedAttention attention = add_attention(
      layer.parameters, shape.heads, {.dropout = config.fraction_or("attention_dropout", 0)});
  attention.sliding_window = read_window(config, "sliding_window", 4096);
  layer.attention = std::move(attention);
  layer.mlp = add_gated_mlp(layer.parameters, "mlp.", shape.hidden, width,
                            {.activation = config.activation_or("hidden_act", Activation::kSilu)});
  layer.norms = add_pre_norms(layer.parameters, NormKind::kRms, shape.hidden);

  Architecture model = begin_decoder(shape, {});
  set_layers(model, std::move(layer));
  return model;
}

}  // namespace steelyard
