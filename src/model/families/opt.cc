// OPT: learned positions with two rows more than stated, ReLU, biases everywhere, tied head.
// The 350m alone normalises after the sublayers, has no final norm, and narrows its embedding to
// 512.
#include <utility>

#include "model/decoder.h"
#include "model/families/families.h"

namespace steelyard {

Architecture read_opt(Config& config) {
  const DecoderShape shape = read_decoder_shape(config, {.rotary_fraction = 0, .tied = true});
  // The position of a token is its count plus an offset of 2 (OPTLearnedPositionalEmbedding).
  const Checked positions = config.size("max_position_embeddings") + Checked(2);
  const Checked embedding = config.size_or("word_embed_proj_dim", shape.hidden);
  const bool bias = config.flag_or("enable_bias", true);
  const bool norm_before = config.flag_or("do_layer_norm_before", true);
  config.know({"layerdrop", "activation_dropout"});
  if (!config.flag_or("layer_norm_elementwise_affine", true))
    config.refuse("layer_norm_elementwise_affine", "E303", "norms without weights in an OPT model",
                  "expected true", "no released OPT has them, and none are described here");

  Layer layer;
  layer.arrangement = norm_before ? Arrangement::kPreNorm : Arrangement::kPostNorm;
  layer.attention = add_attention(layer.parameters, shape.heads,
                                  {.output = "out_proj",
                                   .bias = bias,
                                   .output_bias = bias,
                                   .dropout = config.fraction_or("attention_dropout", 0)});
  const Norm attention_norm =
      add_norm(layer.parameters, "self_attn_layer_norm", NormKind::kLayerNorm, shape.hidden);
  layer.mlp = add_plain_mlp(
      layer.parameters, "fc1", "fc2", shape.hidden, config.size("intermediate_size"),
      {.bias = bias, .activation = config.activation_or("hidden_act", Activation::kRelu)});
  layer.norms = {attention_norm, add_norm(layer.parameters, "final_layer_norm",
                                          NormKind::kLayerNorm, shape.hidden)};
  layer.residual_dropout = config.fraction_or("dropout", 0.1);

  const bool final_norm = norm_before && !config.flag_or("_remove_final_layer_norm", false);
  Architecture model = begin_decoder(shape,
                                     {.embedding = "model.decoder.embed_tokens.weight",
                                      .layers = "model.decoder.layers.",
                                      .final_norm = "model.decoder.final_layer_norm",
                                      .final_norm_kind = NormKind::kLayerNorm,
                                      .has_final_norm = final_norm},
                                     embedding);
  model.learned_positions = true;
  model.position_ids = PositionIds::kOfEachSequence;
  add_learned_positions(model, "model.decoder.embed_positions.weight", positions);
  if (embedding != shape.hidden) {
    const LinearOptions whole{.split = Split::kNone};
    model.project_in = add_linear(model.embedding_parameters, "model.decoder.project_in", embedding,
                                  shape.hidden, whole);
    model.project_out = add_linear(model.head_parameters, "model.decoder.project_out", shape.hidden,
                                   embedding, whole);
  }
  set_layers(model, std::move(layer));
  return model;
}

}  // namespace steelyard
