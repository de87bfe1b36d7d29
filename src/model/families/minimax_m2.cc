// MiniMax M2: norms over the whole projections of query and key, half of each head rotated, and experts in every layer that are
// chosen by sigmoids.
#include <utility>

#include "model/decoder.h"
#include "model/families/families.h"
#include "model/families/scored_experts.h"

namespace steelyard {

Architecture read_minimax_m2(Config& config) {
  // What the releases' own code reads and transformers' does not: that reads how much of a head is rotated from
  // partial_rotary_factor.
  config.know({"use_mtp", "num_mtp_modules", "mtp_transformer_layers", "use_qk_norm",
               "qk_norm_type", "use_routing_bias", "attn_type_list", "shared_intermediate_size",
               "rotary_dim"});
  const DecoderShape shape = read_decoder_shape(config, {.key_value_heads = 8, .head_width = 128});
  ExpertOptions experts = read_expert_counts(config, config.size("intermediate_size"));
  experts.router = "block_sparse_moe.gate";
  experts.activation = config.activation_or("hidden_act", Activation::kSilu);

  Layer layer;
  layer.attention = add_attention(layer.parameters, shape.heads,
                                  {.query_key_norm = NormKind::kRms,
                                   .norm_over_whole_projection = true,
                                   .dropout = config.fraction_or("attention_dropout", 0)});
  ExpertMlp mlp = add_separate_experts(layer.parameters, shape.hidden, experts,
                                       {.gate = "block_sparse_moe.experts.*.w1",
                                        .up = "block_sparse_moe.experts.*.w3",
                                        .down = "block_sparse_moe.experts.*.w2"});
  mlp.sigmoid_scores = true;
  mlp.routing.divided_by_sum = true;
  add_correction_bias(layer.parameters, mlp, "block_sparse_moe.e_score_correction_bias");
  layer.mlp = std::move(mlp);
  layer.norms = add_pre_norms(layer.parameters, NormKind::kRms, shape.hidden);

  Architecture model = begin_decoder(shape, {});
  set_layers(model, std::move(layer));
  list_buffers(model);
  return model;
}

}  // namespace steelyard
