// BERT and RoBERTa: encoders with learned positions and token types, norms after the sublayers. A
// pooler belongs to the total; what trains is the masked-language model, which has none, and a head
// beside the total whose decoder is the embedding again.
#include <string>
#include <string_view>
#include <utility>

#include "model/decoder.h"
#include "model/families/families.h"

namespace steelyard {
namespace {

struct HeadNames {
  std::string_view dense, norm, decoder, bias;
};

// A dense layer with bias, an activation, a norm, and the bias of the tied decoder.
void add_masked_language_head(Architecture& model, const HeadNames& names, Activation activation) {
  const std::size_t from = model.head_parameters.size();
  model.head.bias = true;
  model.head.bias_index = add_tensor(model.head_parameters, std::string(names.bias),
                                     {model.vocabulary}, TensorRole::kBias);
  HeadTransform transform;
  transform.dense = add_linear(model.head_parameters, std::string(names.dense), model.hidden,
                               model.hidden, {.bias = true, .split = Split::kNone});
  transform.activation = activation;
  transform.norm =
      add_norm(model.head_parameters, std::string(names.norm), NormKind::kLayerNorm, model.hidden);
  model.head_transform = std::move(transform);
  Checked elements = 0;
  for (std::size_t i = from; i < model.head_parameters.size(); ++i) {
    model.head_parameters[i].beside_total = true;
    elements += Checked(elements_of(model.head_parameters[i]));
  }
  model.beside_total.push_back({"mlm_head", elements.value()});
}

Architecture read_encoder(Config& config, const std::string& prefix, const HeadNames& head) {
  DecoderShape shape = read_decoder_shape(config, {.rotary_fraction = 0, .tied = true});
  shape.tied = true;
  const Checked positions = config.size("max_position_embeddings");
  const Activation activation = config.activation_or("hidden_act", Activation::kGeluErf);
  const Checked types = config.size_or("type_vocab_size", 2);
  if (config.find_word("position_embedding_type").value_or("absolute") != "absolute")
    config.warn("position_embedding_type", "E641", "relative positions add a table to every layer",
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
  attention.softmax_as_given = true;
  layer.attention = std::move(attention);
  const Norm attention_norm =
      add_norm(layer.parameters, "attention.output.LayerNorm", NormKind::kLayerNorm, shape.hidden);
  layer.mlp =
      add_plain_mlp(layer.parameters, "intermediate.dense", "output.dense", shape.hidden,
                    config.size("intermediate_size"), {.bias = true, .activation = activation});
  layer.norms = {attention_norm, add_norm(layer.parameters, "output.LayerNorm",
                                          NormKind::kLayerNorm, shape.hidden)};
  layer.residual_dropout = config.fraction_or("hidden_dropout_prob", 0.1);

  const std::string embeddings = prefix + "embeddings.";
  const std::string table = embeddings + "word_embeddings.weight";
  const std::string layers = prefix + "encoder.layer.";
  Architecture model = begin_decoder(
      shape, {.embedding = table, .layers = layers, .head = head.decoder, .has_final_norm = false});
  model.encoder = true;
  model.position_ids = PositionIds::kNone;
  model.learned_positions = true;
  add_learned_positions(model, embeddings + "position_embeddings.weight", positions);
  add_learned_positions(model, embeddings + "token_type_embeddings.weight", types);
  model.token_types = true;
  set_embedding_norm(model, add_norm(model.embedding_parameters, embeddings + "LayerNorm",
                                     NormKind::kLayerNorm, shape.hidden));
  model.embedding_dropout = layer.residual_dropout;
  for (const char* name : {"position_ids", "token_type_ids"})
    add_index_buffer(model.embedding_parameters, embeddings + name, positions);
  add_linear(model.left_out, prefix + "pooler.dense", shape.hidden, shape.hidden,
             {.bias = true, .split = Split::kNone});
  add_masked_language_head(model, head, activation);
  set_layers(model, std::move(layer));
  return model;
}

}  // namespace

Architecture read_bert(Config& config) {
  return read_encoder(config, "bert.",
                      {.dense = "cls.predictions.transform.dense",
                       .norm = "cls.predictions.transform.LayerNorm",
                       .decoder = "cls.predictions.decoder",
                       .bias = "cls.predictions.bias"});
}
Architecture read_roberta(Config& config) {
  return read_encoder(config, "roberta.",
                      {.dense = "lm_head.dense",
                       .norm = "lm_head.layer_norm",
                       .decoder = "lm_head.decoder",
                       .bias = "lm_head.bias"});
}

}  // namespace steelyard
