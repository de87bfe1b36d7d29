// Arcee's AFM: Llama with a plain mlp under a squared ReLU.
#include <utility>

#include "model/decoder.h"
#include "model/families/families.h"

namespace steelyard {

Architecture read_arcee(Config& config) {
  const DecoderShape shape = read_decoder_shape(config, {});
  const bool attention_bias = config.flag_or("attention_bias", false);

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
  layer.norms = {
      add_norm(layer.parameters, "input_layernorm", NormKind::kRms, shape.hidden),
      add_norm(layer.parameters, "post_attention_layernorm", NormKind::kRms, shape.hidden)};

  Architecture model = begin_decoder(shape, {});
  set_layers(model, std::move(layer));
  return model;
}

}  // namespace steelyard
