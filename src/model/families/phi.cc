// Phi-1, 1.5 and 2: parallel block under one LayerNorm, biases everywhere, part of each head
// rotated.
#include <utility>

#include "model/decoder.h"
#include "model/families/families.h"

namespace steelyard {

Architecture read_phi(Config& config) {
  const DecoderShape shape = read_decoder_shape(config, {.rotary_fraction = 0.5});

  Layer layer;
  layer.arrangement = Arrangement::kParallelOneNorm;
  AttentionOptions attention{.output = "dense",
                             .bias = true,
                             .output_bias = true,
                             .query_norm = "q_layernorm",
                             .key_norm = "k_layernorm",
                             .dropout = config.fraction_or("attention_dropout", 0)};
  if (config.flag_or("qk_layernorm", false)) attention.query_key_norm = NormKind::kLayerNorm;
  GroupedAttention heads = add_attention(layer.parameters, shape.heads, attention);
  heads.joins_rotated_parts = true;
  layer.attention = std::move(heads);
  layer.mlp = add_plain_mlp(
      layer.parameters, "mlp.fc1", "mlp.fc2", shape.hidden, config.size("intermediate_size"),
      {.bias = true, .activation = config.activation_or("hidden_act", Activation::kGeluPython)});
  layer.norms = {add_norm(layer.parameters, "input_layernorm", NormKind::kLayerNorm, shape.hidden)};
  layer.residual_dropout = config.fraction_or("resid_pdrop", 0);

  Architecture model = begin_decoder(shape, {.final_norm = "model.final_layernorm",
                                             .final_norm_kind = NormKind::kLayerNorm,
                                             .head_bias = true});
  model.embedding_dropout = config.fraction_or("embd_pdrop", 0);
  set_layers(model, std::move(layer));
  return model;
}

}  // namespace steelyard
