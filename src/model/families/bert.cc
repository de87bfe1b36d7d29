// BERT and RoBERTa: encoders with learned positions and token types, norms after the sublayers, and
// a pooler that belongs to the total. The masked-language head stands beside it; its decoder is the
// embedding again.
#include <string>
#include <utility>

#include "model/decoder.h"
#include "model/families/families.h"

namespace steelyard {
namespace {

Architecture read_encoder(Config& config, const std::string& prefix) {
  DecoderShape shape = read_decoder_shape(config, {.rotary_fraction = 0, .tied = true});
  shape.tied = true;
  const Checked positions = config.size("max_position_embeddings");
  const Checked types = config.size_or("type_vocab_size", 2);
  if (config.find_word("position_embedding_type").value_or("absolute") != "absolute")
    config.warn("position_embedding_type", "W302", "relative positions add a table to every layer",
                "not counted");

  Layer layer;
  layer.arrangement = Arrangement::kPostNorm;
  GroupedAttention attention =
      add_attention(layer.parameters, shape.heads,
                    {.prefix = "attention.",
                     .query = "self.query",
                     .key = "self.key",
                     .value = "self.value",
                     .output = "output.dense",
                     .bias = true,
                     .output_bias = true,
                     .dropout = config.fraction_or("attention_probs_dropout_prob", 0.1)});
  attention.causal = false;
  layer.attention = std::move(attention);
  const Norm attention_norm =
      add_norm(layer.parameters, "attention.output.LayerNorm", NormKind::kLayerNorm, shape.hidden);
  layer.mlp = add_plain_mlp(
      layer.parameters, "intermediate.dense", "output.dense", shape.hidden,
      config.size("intermediate_size"),
      {.bias = true, .activation = config.activation_or("hidden_act", Activation::kGeluErf)});
  layer.norms = {attention_norm, add_norm(layer.parameters, "output.LayerNorm",
                                          NormKind::kLayerNorm, shape.hidden)};
  layer.residual_dropout = config.fraction_or("hidden_dropout_prob", 0.1);

  const std::string embeddings = prefix + "embeddings.";
  const std::string table = embeddings + "word_embeddings.weight";
  const std::string layers = prefix + "encoder.layer.";
  Architecture model = begin_decoder(shape, {.embedding = table,
                                             .layers = layers,
                                             .head = "cls.predictions.decoder",
                                             .has_final_norm = false});
  model.encoder = true;
  model.learned_positions = true;
  add_learned_positions(model, embeddings + "position_embeddings.weight", positions);
  add_learned_positions(model, embeddings + "token_type_embeddings.weight", types);
  set_embedding_norm(model, add_norm(model.embedding_parameters, embeddings + "LayerNorm",
                                     NormKind::kLayerNorm, shape.hidden));
  model.embedding_dropout = layer.residual_dropout;
  add_linear(model.head_parameters, prefix + "pooler.dense", shape.hidden, shape.hidden,
             {.bias = true, .split = Split::kNone});
  // A dense layer with bias, a norm, and the bias of the tied decoder.
  const Checked head = shape.hidden * shape.hidden + Checked(3) * shape.hidden + shape.vocabulary;
  model.beside_total.push_back({"mlm_head", head.value()});
  set_layers(model, std::move(layer));
  return model;
}

}  // namespace

Architecture read_bert(Config& config) { return read_encoder(config, "bert."); }
Architecture read_roberta(Config& config) { return read_encoder(config, "roberta."); }

}  // namespace steelyard
