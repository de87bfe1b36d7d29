// Hunyuan, its dense models: Llama with norms over each head of query and key, behind the rotary embedding.
#include <utility>

#include "model/decoder.h"
#include "model/families/families.h"

namespace steelyard {

Architecture read_hunyuan_dense(Config& config) {
  const DecoderShape shape = read_decoder_shape(config, {});
  const bool bias = config.flag_or("attention_bias", false);

  Layer layer;
  GroupedAttention attention =
      add_attention(layer.parameters, shape.heads,
                    {.bias = bias,
                     .output_bias = bias,
                     .query_key_norm = NormKind::kRms,
                     .query_norm = "query_layernorm",
                     .key_norm = "key_layernorm",
                     .dropout = config.fraction_or("attention_dropout", 0)});
  attention.norms_after_rotary = true;
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
