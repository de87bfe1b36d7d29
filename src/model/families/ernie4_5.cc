// ERNIE 4.5, its dense models: Llama whose rotary embedding turns neighbouring elements in fp32, with one switch for all biases.
#include <utility>

#include "model/decoder.h"
#include "model/families/families.h"

namespace steelyard {

Architecture read_ernie4_5(Config& config) {
  const DecoderShape shape =
      read_decoder_shape(config, {.key_value_heads = 2, .head_width = 128, .tied = true});
  const bool bias = config.flag_or("use_bias", false);

  Layer layer;
  GroupedAttention attention =
      add_attention(layer.parameters, shape.heads, {.bias = bias, .output_bias = bias});
  attention.rotary_form = RotaryForm::kPairs;
  attention.rotary_in_float32 = attention.widens_rotary_products = true;
  layer.attention = std::move(attention);
  layer.mlp = add_gated_mlp(
      layer.parameters, "mlp.", shape.hidden, config.size("intermediate_size"),
      {.bias = bias, .activation = config.activation_or("hidden_act", Activation::kSilu)});
  layer.norms = add_pre_norms(layer.parameters, NormKind::kRms, shape.hidden);

  Architecture model = begin_decoder(shape, {});
  set_layers(model, std::move(layer));
  return model;
}

}  // namespace steelyard
