// GLM-4.5 to 4.7: grouped attention, half of each head rotated, and DeepSeek's manner of experts
// and prediction.
#include <utility>

#include "model/decoder.h"
#include "model/families/families.h"
#include "model/families/scored_experts.h"
#include "model/prediction.h"

namespace steelyard {

Architecture read_glm4_moe(Config& config) {
  const DecoderShape shape =
      read_decoder_shape(config, {.key_value_heads = 8, .head_width = 128, .rotary_fraction = 0.5});
  AttentionOptions attention{.bias = config.flag_or("attention_bias", false),
                             .dropout = config.fraction_or("attention_dropout", 0)};
  if (config.flag_or("use_qk_norm", false)) attention.query_key_norm = NormKind::kRms;
  ScoredExperts scored = read_scored_experts(config, 1);
  scored.sigmoid_scores = true;
  scored.routing.divided_by_sum = config.flag_or("norm_topk_prob", true);
  scored.correction_bias = true;
  const Checked dense_width = config.size("intermediate_size");
  const std::vector<bool> dense = leading_dense_layers(config, shape.layers, 1);

  const auto layer_with = [&](bool with_experts) {
    Layer layer;
    layer.attention = add_attention(layer.parameters, shape.heads, attention);
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
