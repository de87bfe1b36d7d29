// OLMoE: Llama's attention with norms over the whole projections of query and key, and experts in every layer.
#include <utility>

#include "model/decoder.h"
#include "model/families/families.h"
#include "model/families/sparse_layers.h"

namespace steelyard {

Architecture read_olmoe(Config& config) {
  const DecoderShape shape = read_decoder_shape(config, {});
  const bool bias = config.flag_or("attention_bias", false);
  ExpertOptions experts = read_expert_counts(config, config.size("intermediate_size"));
  experts.activation = config.activation_or("hidden_act", Activation::kSilu);
  if (config.find_number("clip_qkv"))
    config.refuse("clip_qkv", "E301",
                  "queries, keys and values that are clipped are not weighed yet",
                  "the clamps keep masks", "null is weighed, as OLMoE's releases have it");

  Layer layer;
  layer.attention = add_attention(layer.parameters, shape.heads,
                                  {.bias = bias,
                                   .output_bias = bias,
                                   .query_key_norm = NormKind::kRms,
                                   .norm_over_whole_projection = true,
                                   .dropout = config.fraction_or("attention_dropout", 0)});
  ExpertMlp mlp = add_separate_experts(layer.parameters, shape.hidden, experts);
  mlp.routing = qwen_routing(config);
  layer.mlp = std::move(mlp);
  layer.norms = add_pre_norms(layer.parameters, NormKind::kRms, shape.hidden);

  Architecture model = begin_decoder(shape, {});
  set_layers(model, std::move(layer));
  return model;
}

}  // namespace steelyard
