// Falcon: fused projection with one key/value head (7b), a few (40b, 180b) or all (rw); mostly
// parallel blocks.
#include <utility>

#include "model/decoder.h"
#include "model/families/families.h"

namespace steelyard {
namespace {

// One norm feeds both branches in the old architecture, two in the new one, unless the file says
// otherwise.
bool has_two_norms(Config& config, bool new_architecture) {
  const Checked stated = config.count_or("num_ln_in_parallel_attn", new_architecture ? 2 : 1);
  return stated == Checked(2);
}

}  // namespace

Architecture read_falcon(Config& config) {
  const bool alibi = config.flag_or("alibi", false);
  DecoderShape shape =
      read_decoder_shape(config, {.rotary_fraction = alibi ? 0.0 : 1.0, .tied = true});
  const bool new_architecture = config.flag_or("new_decoder_architecture", false);
  const bool one_key_value_head = config.flag_or("multi_query", true);
  // num_kv_heads counts in the new architecture only.
  if (!new_architecture)
    shape.heads.key_value_heads = one_key_value_head ? Checked(1) : shape.heads.heads;
  const bool bias = config.flag_or("bias", false);
  const Checked width = config.find_size("intermediate_size").value_or(Checked(4) * shape.hidden);

  Layer layer;
  GroupedAttention attention =
      add_fused_attention(layer.parameters, shape.heads,
                          {.fused = "self_attention.query_key_value",
                           .output = "self_attention.dense",
                           .bias = bias,
                           .output_bias = bias,
                           .dropout = config.fraction_or("attention_dropout", 0)});
  attention.alibi = alibi;
  attention.always_repeats_key_value = new_architecture;
  attention.one_key_value_head = !new_architecture && one_key_value_head;
  attention.always_masked = true;
  layer.attention = std::move(attention);
  layer.mlp = add_plain_mlp(
      layer.parameters, "mlp.dense_h_to_4h", "mlp.dense_4h_to_h", shape.hidden, width,
      {.bias = bias, .activation = config.activation_or("hidden_act", Activation::kGeluErf)});

  const auto norm = [&](std::string_view name) {
    return add_norm(layer.parameters, std::string(name), NormKind::kLayerNorm, shape.hidden);
  };
  const bool parallel = config.flag_or("parallel_attn", true);
  const bool two_norms = has_two_norms(config, new_architecture);
  if (!parallel) {
    layer.arrangement = Arrangement::kPreNorm;
    layer.norms = {norm("input_layernorm"), norm("post_attention_layernorm")};
  } else if (two_norms) {
    layer.arrangement = Arrangement::kParallelTwoNorms;
    layer.norms = {norm("ln_attn"), norm("ln_mlp")};
  } else {
    layer.arrangement = Arrangement::kParallelOneNorm;
    layer.norms = {norm("input_layernorm")};
  }
  layer.residual_dropout = config.fraction_or("hidden_dropout", 0);

  Architecture model = begin_decoder(shape, {.embedding = "transformer.word_embeddings.weight",
                                             .layers = "transformer.h.",
                                             .final_norm = "transformer.ln_f",
                                             .final_norm_kind = NormKind::kLayerNorm});
  set_layers(model, std::move(layer));
  return model;
}

}  // namespace steelyard
