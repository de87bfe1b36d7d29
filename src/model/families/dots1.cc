// dots.llm1: Qwen3's attention and DeepSeek-V3's experts.
#include <utility>

#include "model/decoder.h"
#include "model/families/families.h"
#include "model/families/scored_experts.h"

namespace steelyard {

Architecture read_dots1(Config& config) {
  const DecoderShape shape = read_decoder_shape(config, {.key_value_heads = 32});
  const bool bias = config.flag_or("attention_bias", false);
  const double dropout = config.fraction_or("attention_dropout", 0);
  const auto window = read_window(config, "sliding_window", 4096);
  const std::int64_t first = config.count_or("max_window_layers", 62).value();
  const std::vector<bool> windowed = windowed_layers(config, shape.layers, [&](std::int64_t layer) {
    return window.has_value() && layer >= first;
  });
  ScoredExperts scored = read_scored_experts(config, 0);
  scored.sigmoid_scores = scored.correction_bias = true;
  scored.routing.divided_by_sum = config.flag_or("norm_topk_prob", false);
  const Checked dense_width = config.size("intermediate_size");
  const std::vector<bool> dense = leading_dense_layers(config, shape.layers, 0);

  const auto layer_with = [&](bool local, bool with_experts) {
    Layer layer;
    GroupedAttention attention = add_attention(
        layer.parameters, shape.heads,
        {.bias = bias, .output_bias = bias, .query_key_norm = NormKind::kRms, .dropout = dropout});
    if (local) attention.sliding_window = window;
    layer.attention = std::move(attention);
    layer.mlp = add_scored_mlp(layer.parameters, shape.hidden, scored, with_experts, dense_width);
    layer.norms = add_pre_norms(layer.parameters, NormKind::kRms, shape.hidden);
    return layer;
  };

  Architecture model = begin_decoder(shape, {});
  std::vector<int> kinds;
  for (std::size_t i = 0; i < dense.size(); ++i)
    kinds.push_back((windowed[i] ? 2 : 0) + (dense[i] ? 0 : 1));
  set_layers(model,
             {layer_with(false, false), layer_with(false, true), layer_with(true, false),
              layer_with(true, true)},
             std::move(kinds));
  list_buffers(model);
  return model;
}

}  // namespace steelyard
