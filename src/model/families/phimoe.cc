// Phi-3.5-MoE: Mixtral with LayerNorm, biases on all four projections and on the head, as its file
// says.
#include <utility>

#include "model/decoder.h"
#include "model/families/families.h"

namespace steelyard {

Architecture read_phimoe(Config& config) {
  const DecoderShape shape = read_decoder_shape(config, {.key_value_heads = 8});
  const bool bias = config.flag_or("attention_bias", false);
  ExpertOptions experts = read_expert_counts(config, config.size("intermediate_size"));
  experts.router = "block_sparse_moe.gate";
  experts.activation = config.activation_or("hidden_act", Activation::kSilu);
  config.know({"hidden_dropout"});

  Layer layer;
  GroupedAttention attention = add_attention(
      layer.parameters, shape.heads,
      {.bias = bias, .output_bias = bias, .dropout = config.fraction_or("attention_dropout", 0)});
  attention.sliding_window = read_window(config, "sliding_window", 0);
  layer.attention = std::move(attention);
  layer.mlp = add_separate_experts(layer.parameters, shape.hidden, experts,
                                   {.gate = "block_sparse_moe.experts.*.w1",
                                    .up = "block_sparse_moe.experts.*.w3",
                                    .down = "block_sparse_moe.experts.*.w2"});
  layer.norms = add_pre_norms(layer.parameters, NormKind::kLayerNorm, shape.hidden);

  Architecture model = begin_decoder(shape, {.final_norm_kind = NormKind::kLayerNorm,
                                             .head_bias = config.flag_or("lm_head_bias", false)});
  set_layers(model, std::move(layer));
  return model;
}

}  // namespace steelyard
