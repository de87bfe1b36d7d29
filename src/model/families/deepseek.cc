// DeepSeek-V2 and V3 (R1, Moonlight, Kimi K2): latent attention, dense layers first, shared
// experts.
#include <string>
#include <utility>

#include "model/decoder.h"
#include "model/families/families.h"
#include "model/families/latent_attention.h"
#include "model/families/scored_experts.h"
#include "model/prediction.h"

namespace steelyard {
namespace {

struct Generation {
  std::int64_t shared_experts;
  std::int64_t leading_dense;
  bool sigmoid;
};

Architecture read_deepseek(Config& config, const Generation& generation) {
  // Latent attention has head widths of its own: hidden / heads need not be whole, and head_dim is
  // not read.
  const DecoderShape shape = read_decoder_shape(config, {.head_width = 1});
  const LatentShape latent = read_latent_shape(config, shape.hidden, shape.heads.heads);
  ScoredExperts scored = read_scored_experts(config, generation.shared_experts);
  scored.sigmoid_scores = generation.sigmoid;
  // transformers' DeepSeek-V2 reads norm_topk_prob nowhere.
  if (generation.sigmoid) scored.routing.divided_by_sum = config.flag_or("norm_topk_prob", true);
  scored.correction_bias = generation.sigmoid;
  const Checked dense_width = config.size("intermediate_size");
  std::vector<bool> dense = leading_dense_layers(config, shape.layers, generation.leading_dense);
  // Read by the models' own code, not by transformers'; every release has 1.
  const std::int64_t frequency = config.size_or("moe_layer_freq", 1).value();
  for (std::size_t i = 0; frequency > 1 && i < dense.size(); ++i)
    if (static_cast<std::int64_t>(i) % frequency != 0) dense[i] = true;

  const auto layer_with = [&](bool with_experts) {
    Layer layer;
    LatentAttention attention = add_latent_attention(layer.parameters, latent);
    attention.complex_rotary = !generation.sigmoid;  // modeling_deepseek_v2.py, apply_rotary_emb
    layer.attention = std::move(attention);
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

}  // namespace

Architecture read_deepseek_v2(Config& config) {
  return read_deepseek(config, {.shared_experts = 2, .leading_dense = 0, .sigmoid = false});
}

Architecture read_deepseek_v3(Config& config) {
  return read_deepseek(config, {.shared_experts = 1, .leading_dense = 3, .sigmoid = true});
}

}  // namespace steelyard
