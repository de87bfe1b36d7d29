// Seed-OSS: Llama with biases on query, key and value, wide heads, and dropout after each sublayer.
#include <utility>

#include "model/decoder.h"
#include "model/families/families.h"

namespace steelyard {

Architecture read_seed_oss(Config& config) {
  const DecoderShape shape = read_decoder_shape(config, {.key_value_heads = 8, .head_width = 128});

  Layer layer;
  layer.attention = add_attention(layer.parameters, shape.heads,
                                  {.bias = config.flag_or("attention_bias", true),
                                   .output_bias = config.flag_or("attention_out_bias", false),
                                   .dropout = config.fraction_or("attention_dropout", 0.1)});
  layer.mlp =
      add_gated_mlp(layer.parameters, "mlp.", shape.hidden, config.size("intermediate_size"),
                    {.bias = config.flag_or("mlp_bias", false),
                     .activation = config.activation_or("hidden_act", Activation::kSilu)});
  layer.norms = {
      add_norm(layer.parameters, "input_layernorm", NormKind::kRms, shape.hidden),
      add_norm(layer.parameters, "post_attention_layernorm", NormKind::kRms, shape.hidden)};
  layer.residual_dropout = config.fraction_or("residual_dropout", 0.1);

  Architecture model = begin_decoder(shape, {});
  set_layers(model, std::move(layer));
  return model;
}

}  // namespace steelyard
