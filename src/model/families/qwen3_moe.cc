// Qwen3 mixture of experts: Qwen3's attention, Qwen2-MoE's experts, and no shared expert, whatever
// the file says.
#include <utility>

#include "model/decoder.h"
#include "model/families/families.h"
#include "model/families/sparse_layers.h"

namespace steelyard {

Architecture read_qwen3_moe(Config& config) {
  const DecoderShape shape = read_decoder_shape(config, {.key_value_heads = 4});
  const std::vector<bool> sparse = qwen_sparse_layers(config, shape.layers);
  const LateWindow late = read_late_window(config, shape.layers);
  const bool bias = config.flag_or("attention_bias", false);
  const double dropout = config.fraction_or("attention_dropout", 0);
  ExpertOptions experts = read_expert_counts(config, config.size("moe_intermediate_size"));
  experts.activation = config.activation_or("hidden_act", Activation::kSilu);
  const Routing routing = qwen_routing(config);
  const Checked dense_width = config.size("intermediate_size");
  config.know({"shared_expert_intermediate_size"});

  const auto layer_with = [&](bool windowed, bool with_experts) {
    Layer layer;
    GroupedAttention attention = add_attention(
        layer.parameters, shape.heads,
        {.bias = bias, .output_bias = bias, .query_key_norm = NormKind::kRms, .dropout = dropout});
    if (windowed) attention.sliding_window = late.width;
    layer.attention = std::move(attention);
    if (with_experts) {
      ExpertMlp mlp = add_separate_experts(layer.parameters, shape.hidden, experts);
      mlp.routing = routing;
      mlp.router_behind_experts = true;
      layer.mlp = std::move(mlp);
    } else {
      layer.mlp = add_gated_mlp(layer.parameters, "mlp.", shape.hidden, dense_width,
                                {.activation = experts.activation});
    }
    layer.norms = add_pre_norms(layer.parameters, NormKind::kRms, shape.hidden);
    return layer;
  };

  std::vector<int> kinds;
  for (std::size_t i = 0; i < sparse.size(); ++i)
    kinds.push_back((late.windowed[i] ? 1 : 0) + (sparse[i] ? 2 : 0));
  Architecture model = begin_decoder(shape, {});
  set_layers(model,
             {layer_with(false, false), layer_with(true, false), layer_with(false, true),
              layer_with(true, true)},
             std::move(kinds));
  return model;
}

}  // namespace steelyard
