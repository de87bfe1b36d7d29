// Ministral 3: Mistral whose turned queries grow with the position.
#include <utility>

#include "model/decoder.h"
#include "model/families/families.h"

namespace steelyard {

Architecture read_ministral3(Config& config) {
  const DecoderShape shape = read_decoder_shape(config, {.key_value_heads = 8, .head_width = 128});

  Layer layer;
  GroupedAttention attention = add_attention(
      layer.parameters, shape.heads, {.dropout = config.fraction_or("attention_dropout", 0)});
  attention.sliding_window = read_window(config, "sliding_window", 0);
  attention.query_scaled_by_position = true;
  layer.attention = std::move(attention);
  layer.mlp =
      add_gated_mlp(layer.parameters, "mlp.", shape.hidden, config.size("intermediate_size"),
                    {.activation = config.activation_or("hidden_act", Activation::kSilu)});
  layer.norms = add_pre_norms(layer.parameters, NormKind::kRms, shape.hidden);

  Architecture model = begin_decoder(shape, {});
  set_layers(model, std::move(layer));
  return model;
}

}  // namespace steelyard
