// GLM-4.7-Flash: DeepSeek-V3's latent attention, and GLM-4.5's experts behind one dense layer.
#include <string>
#include <utility>

#include "model/decoder.h"
#include "model/families/families.h"
#include "model/families/latent_attention.h"
#include "model/families/scored_experts.h"
#include "model/prediction.h"

namespace steelyard {
namespace {

// "dense" or "sparse" for each layer; else the first alone is dense, or as many as first_k_dense_replace says.
std::vector<bool> dense_layers(Config& config, Checked layers) {
  std::vector<bool> dense = leading_dense_layers(config, layers, 1);
  const auto stated = config.find_words("mlp_layer_types");
  if (!stated) return dense;
  if (stated->size() != dense.size()) {
    config.refuse("mlp_layer_types", "E305",
                  "\"mlp_layer_types\" and \"num_hidden_layers\" disagree",
                  "expected one entry for each layer");
    return dense;
  }
  for (std::size_t i = 0; i < dense.size(); ++i) dense[i] = (*stated)[i] != "sparse";
  return dense;
}

}  // namespace

Architecture read_glm4_moe_lite(Config& config) {
  const DecoderShape shape = read_decoder_shape(config, {.head_width = 1});
  const LatentShape latent = read_latent_shape(config, shape.hidden, shape.heads.heads);
  ScoredExperts scored = read_scored_experts(config, 1);
  scored.sigmoid_scores = scored.correction_bias = true;
  scored.routing.divided_by_sum = config.flag_or("norm_topk_prob", true);
  const Checked dense_width = config.size("intermediate_size");
  const std::vector<bool> dense = dense_layers(config, shape.layers);

  const auto layer_with = [&](bool with_experts) {
    Layer layer;
    layer.attention = add_latent_attention(layer.parameters, latent);
    layer.mlp = add_scored_mlp(layer.parameters, shape.hidden, scored, with_experts, dense_width);
    layer.norms = add_pre_norms(layer.parameters, NormKind::kRms, shape.hidden);
    return layer;
  };

  Architecture model = begin_decoder(shape, {});
  set_layers(model, {layer_with(true), layer_with(false)}, {dense.begin(), dense.end()});
  add_prediction_modules(model,
                         config.count_or("num_nextn_predict_layers", 0, kMostLayers).value());
  list_buffers(model);
  return model;
}

}  // namespace steelyard
