// Llama: the baseline. Pre-norm, RMSNorm, grouped attention, SiLU-gated mlp, full rotary embedding.
#include <utility>

#include "model/decoder.h"
#include "model/families/families.h"

namespace steelyard {

Architecture read_llama(Config& config) {
  const DecoderShape shape = read_decoder_shape(config, {});
  const Checked width = config.size("intermediate_size");
  const bool attention_bias = config.flag_or("attention_bias", false);

  Layer layer;
  layer.attention = add_attention(layer.parameters, shape.heads,
                                  {.bias = attention_bias,
                                   .output_bias = attention_bias,
                                   .dropout = config.fraction_or("attention_dropout", 0)});
  layer.mlp = add_gated_mlp(layer.parameters, "mlp.", shape.hidden, width,
                            {.bias = config.flag_or("mlp_bias", false),
                             .activation = config.activation_or("hidden_act", Activation::kSilu)});
  layer.norms = add_pre_norms(layer.parameters, NormKind::kRms, shape.hidden);

  Architecture model = begin_decoder(shape, {});
  set_layers(model, std::move(layer));
  return model;
}

}  // namespace steelyard
