// Granite 3: Llama with four numbers: the embedding, each sublayer's output and the logits are multiplied by one each, the
// scores by the fourth.
#include <utility>

#include "model/decoder.h"
#include "model/families/families.h"

namespace steelyard {

Architecture read_granite(Config& config) {
  config.know({"embedding_multiplier", "residual_multiplier", "attention_multiplier"});
  const DecoderShape shape = read_decoder_shape(config, {});
  const bool bias = config.flag_or("attention_bias", false);

  Layer layer;
  layer.attention = add_attention(
      layer.parameters, shape.heads,
      {.bias = bias, .output_bias = bias, .dropout = config.fraction_or("attention_dropout", 0)});
  layer.mlp =
      add_gated_mlp(layer.parameters, "mlp.", shape.hidden, config.size("intermediate_size"),
                    {.bias = config.flag_or("mlp_bias", false),
                     .activation = config.activation_or("hidden_act", Activation::kSilu)});
  layer.norms = add_pre_norms(layer.parameters, NormKind::kRms, shape.hidden);
  layer.scaled_sublayers = true;

  Architecture model = begin_decoder(shape, {});
  model.scaled_embedding = model.embedding_scale_is_number = model.scaled_logits = true;
  set_layers(model, std::move(layer));
  return model;
}

}  // namespace steelyard
