// BLOOM: a norm on the embedding, ALiBi in place of positions, an mlp of four times the width, tied
// head.
#include <utility>

#include "model/decoder.h"
#include "model/families/families.h"

namespace steelyard {

Architecture read_bloom(Config& config) {
  const DecoderShape shape = read_decoder_shape(config, {.rotary_fraction = 0, .tied = true});
  // No key states the width of the mlp; n_inner stands in some files and is not read.
  config.know({"n_inner", "apply_residual_connection_post_layernorm"});

  Layer layer;
  const Norm before_attention =
      add_norm(layer.parameters, "input_layernorm", NormKind::kLayerNorm, shape.hidden);
  GroupedAttention attention =
      add_fused_attention(layer.parameters, shape.heads,
                          {.fused = "self_attention.query_key_value",
                           .output = "self_attention.dense",
                           .bias = true,
                           .output_bias = true,
                           .dropout = config.fraction_or("attention_dropout", 0)});
  attention.alibi = true;
  layer.attention = std::move(attention);
  const Norm before_mlp =
      add_norm(layer.parameters, "post_attention_layernorm", NormKind::kLayerNorm, shape.hidden);
  layer.mlp = add_plain_mlp(layer.parameters, "mlp.dense_h_to_4h", "mlp.dense_4h_to_h",
                            shape.hidden, Checked(4) * shape.hidden,
                            {.bias = true, .activation = Activation::kGeluCustom});
  layer.norms = {before_attention, before_mlp};
  layer.residual_dropout = config.fraction_or("hidden_dropout", 0);

  Architecture model = begin_decoder(shape, {.embedding = "transformer.word_embeddings.weight",
                                             .layers = "transformer.h.",
                                             .final_norm = "transformer.ln_f",
                                             .final_norm_kind = NormKind::kLayerNorm});
  set_embedding_norm(model,
                     add_norm(model.embedding_parameters, "transformer.word_embeddings_layernorm",
                              NormKind::kLayerNorm, shape.hidden));
  model.position_ids = PositionIds::kNone;
  set_layers(model, std::move(layer));
  return model;
}

}  // namespace steelyard
