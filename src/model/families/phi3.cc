// Phi-3 and Phi-4: Llama's arithmetic with fused query-key-value and fused gate-up projections, no
// biases.
#include <utility>

#include "model/decoder.h"
#include "model/families/families.h"

namespace steelyard {

Architecture read_phi3(Config& config) {
  const DecoderShape shape = read_decoder_shape(config, {});
  // Written in some files, read by no code of the family.
  config.know(
      {"attention_bias", "mlp_bias", "lm_head_bias", "full_attn_mod", "interpolate_factor"});

  Layer layer;
  GroupedAttention attention =
      add_fused_attention(layer.parameters, shape.heads,
                          {.fused = "self_attn.qkv_proj",
                           .output = "self_attn.o_proj",
                           .dropout = config.fraction_or("attention_dropout", 0)});
  attention.sliding_window = read_window(config, "sliding_window", 0);
  layer.attention = std::move(attention);
  layer.mlp =
      add_fused_gated_mlp(layer.parameters, "mlp.", shape.hidden, config.size("intermediate_size"),
                          {.activation = config.activation_or("hidden_act", Activation::kSilu)});
  layer.norms = add_pre_norms(layer.parameters, NormKind::kRms, shape.hidden);
  layer.residual_dropout = config.fraction_or("resid_pdrop", 0);

  Architecture model = begin_decoder(shape, {});
  model.embedding_dropout = config.fraction_or("embd_pdrop", 0);
  set_layers(model, std::move(layer));
  return model;
}

}  // namespace steelyard
