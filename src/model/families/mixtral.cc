// Mixtral: Mistral's attention, and in every layer a mixture of experts whose width is
// `intermediate_size`.
#include <utility>

#include "model/decoder.h"
#include "model/families/families.h"

namespace steelyard {

Architecture read_mixtral(Config& config) {
  const DecoderShape shape = read_decoder_shape(config, {.key_value_heads = 8});
  ExpertOptions experts = read_expert_counts(config, config.size("intermediate_size"));
  experts.router = "block_sparse_moe.gate";
  experts.activation = config.activation_or("hidden_act", Activation::kSilu);

  Layer layer;
  GroupedAttention attention = add_attention(
      layer.parameters, shape.heads, {.dropout = config.fraction_or("attention_dropout", 0)});
  attention.sliding_window = read_window(config, "sliding_window", 0);
  layer.attention = std::move(attention);
  ExpertMlp mlp = add_separate_experts(layer.parameters, shape.hidden, experts,
                                       {.gate = "block_sparse_moe.experts.*.w1",
                                        .up = "block_sparse_moe.experts.*.w3",
                                        .down = "block_sparse_moe.experts.*.w2"});
  mlp.routing.divided_by_sum = true;
  layer.mlp = std::move(mlp);
  layer.norms = add_pre_norms(layer.parameters, NormKind::kRms, shape.hidden);

  Architecture model = begin_decoder(shape, {});
  set_layers(model, std::move(layer));
  return model;
}

}  // namespace steelyard
