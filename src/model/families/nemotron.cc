// Nemotron-3, Nemotron-4 and Minitron: a plain mlp under a squared ReLU, LayerNorm that multiplies by 1 + weight, half of
// each head rotated.
#include <utility>

#include "model/decoder.h"
#include "model/families/families.h"

namespace steelyard {

Architecture read_nemotron(Config& config) {
  const DecoderShape shape = read_decoder_shape(config, {.rotary_fraction = 0.5});
  const bool attention_bias = config.flag_or("attention_bias", false);
  constexpr NormKind kNorm = NormKind::kLayerNormUnitOffset;

  Layer layer;
  layer.attention = add_attention(layer.parameters, shape.heads,
                                  {.bias = attention_bias,
                                   .output_bias = attention_bias,
                                   .dropout = config.fraction_or("attention_dropout", 0)});
  layer.mlp =
      add_plain_mlp(layer.parameters, "mlp.up_proj", "mlp.down_proj", shape.hidden,
                    config.size("intermediate_size"),
                    {.bias = config.flag_or("mlp_bias", false),
                     .activation = config.activation_or("hidden_act", Activation::kSquaredRelu)});
  layer.norms = add_pre_norms(layer.parameters, kNorm, shape.hidden);

  Architecture model = begin_decoder(shape, {.final_norm_kind = kNorm});
  set_layers(model, std::move(layer));
  return model;
}

}  // namespace steelyard
