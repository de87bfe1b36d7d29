// OLMo 2: no norms before the sublayers, one after each; query and key are normalised over the
// whole projection.
#include <utility>

#include "model/decoder.h"
#include "model/families/families.h"

namespace steelyard {

Architecture read_olmo2(Config& config) {
  const DecoderShape shape = read_decoder_shape(config, {});
  const bool bias = config.flag_or("attention_bias", false);

  Layer layer;
  layer.arrangement = Arrangement::kOutputNorm;
  GroupedAttention attention =
      add_attention(layer.parameters, shape.heads,
                    {.bias = bias,
                     .output_bias = bias,
                     .query_key_norm = NormKind::kRmsFloat32,
                     .norm_over_whole_projection = true,
                     .dropout = config.fraction_or("attention_dropout", 0)});
  attention.rotary_in_float32 = true;
  layer.attention = std::move(attention);
  layer.mlp =
      add_gated_mlp(layer.parameters, "mlp.", shape.hidden, config.size("intermediate_size"),
                    {.activation = config.activation_or("hidden_act", Activation::kSilu)});
  layer.norms = {
      add_norm(layer.parameters, "post_attention_layernorm", NormKind::kRmsFloat32, shape.hidden),
      add_norm(layer.parameters, "post_feedforward_layernorm", NormKind::kRmsFloat32,
               shape.hidden)};

  Architecture model = begin_decoder(shape, {.final_norm_kind = NormKind::kRmsFloat32});
  set_layers(model, std::move(layer));
  return model;
}

}  // namespace steelyard
