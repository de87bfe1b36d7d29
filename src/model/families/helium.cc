// Helium: Llama whose rotary embedding turns neighbouring elements, with the norms' products in fp32.
#include <utility>

#include "model/decoder.h"
#include "model/families/families.h"

namespace steelyard {

Architecture read_helium(Config& config) {
  const DecoderShape shape = read_decoder_shape(config, {.key_value_heads = 20, .head_width = 128});

  Layer layer;
  GroupedAttention attention =
      add_attention(layer.parameters, shape.heads,
                    {.bias = config.flag_or("attention_bias", false),
                     .dropout = config.fraction_or("attention_dropout", 0)});
  attention.rotary_form = RotaryForm::kPairs;
  layer.attention = std::move(attention);
  layer.mlp =
      add_gated_mlp(layer.parameters, "mlp.", shape.hidden, config.size("intermediate_size"),
                    {.bias = config.flag_or("mlp_bias", false),
                     .activation = config.activation_or("hidden_act", Activation::kSilu)});
  layer.norms = {
      add_norm(layer.parameters, "input_layernorm", NormKind::kRmsFloat32, shape.hidden),
      add_norm(layer.parameters, "post_attention_layernorm", NormKind::kRmsFloat32, shape.hidden)};

  Architecture model = begin_decoder(shape, {.final_norm_kind = NormKind::kRmsFloat32});
  set_layers(model, std::move(layer));
  return model;
}

}  // namespace steelyard
