// GPT-NeoX and Pythia: attention and mlp side by side, each under its own norm; a quarter of each
// head rotated.
#include <utility>

#include "model/decoder.h"
#include "model/families/families.h"

namespace steelyard {

Architecture read_gpt_neox(Config& config) {
  const DecoderShape shape =
      read_decoder_shape(config, {.rotary_fraction = config.fraction_or("rotary_pct", 0.25)});
  const bool bias = config.flag_or("attention_bias", true);

  Layer layer;
  layer.arrangement = config.flag_or("use_parallel_residual", true) ? Arrangement::kParallelTwoNorms
                                                                    : Arrangement::kPreNorm;
  layer.norms = add_pre_norms(layer.parameters, NormKind::kLayerNorm, shape.hidden);
  layer.attention = add_fused_attention(layer.parameters, shape.heads,
                                        {.fused = "attention.query_key_value",
                                         .output = "attention.dense",
                                         .bias = bias,
                                         .output_bias = bias,
                                         .dropout = config.fraction_or("attention_dropout", 0)});
  layer.mlp = add_plain_mlp(
      layer.parameters, "mlp.dense_h_to_4h", "mlp.dense_4h_to_h", shape.hidden,
      config.size("intermediate_size"),
      {.bias = true, .activation = config.activation_or("hidden_act", Activation::kGeluErf)});
  layer.residual_dropout = config.fraction_or("hidden_dropout", 0);

  Architecture model = begin_decoder(shape, {.embedding = "gpt_neox.embed_in.weight",
                                             .layers = "gpt_neox.layers.",
                                             .final_norm = "gpt_neox.final_layer_norm",
                                             .head = "embed_out",
                                             .final_norm_kind = NormKind::kLayerNorm});
  model.embedding_dropout = layer.residual_dropout;
  set_layers(model, std::move(layer));
  return model;
}

}  // namespace steelyard
