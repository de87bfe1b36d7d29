// StarCoder2: grouped attention and a plain mlp with biases, LayerNorm, tied head, a window in
// every layer.
#include <utility>

#include "model/decoder.h"
#include "model/families/families.h"

namespace steelyard {

Architecture read_starcoder2(Config& config) {
  const DecoderShape shape = read_decoder_shape(config, {.key_value_heads = 2, .tied = true});
  const bool bias = config.flag_or("use_bias", true);

  Layer layer;
  GroupedAttention attention = add_attention(
      layer.parameters, shape.heads,
      {.bias = bias, .output_bias = bias, .dropout = config.fraction_or("attention_dropout", 0)});
  attention.sliding_window = read_window(config, "sliding_window", 0);
  layer.attention = std::move(attention);
  layer.mlp = add_plain_mlp(
      layer.parameters, "mlp.c_fc", "mlp.c_proj", shape.hidden, config.size("intermediate_size"),
      {.bias = bias, .activation = config.activation_or("hidden_act", Activation::kGeluTanh)});
  layer.norms = add_pre_norms(layer.parameters, NormKind::kLayerNorm, shape.hidden);
  layer.residual_dropout = config.fraction_or("residual_dropout", 0);

  Architecture model = begin_decoder(shape, {.final_norm_kind = NormKind::kLayerNorm});
  model.embedding_dropout = config.fraction_or("embedding_dropout", 0);
  set_layers(model, std::move(layer));
  return model;
}

}  // namespace steelyard
