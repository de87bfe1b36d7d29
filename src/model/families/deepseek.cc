// DeepSeek-V2 and V3 (R1, Moonlight, Kimi K2): latent attention, dense layers first, shared
// experts.
#include <string>
#include <utility>

#include "model/decoder.h"
#include "model/families/families.h"
#include "model/families/scored_experts.h"
#include "model/prediction.h"

namespace steelyard {
namespace {

struct LatentShape {
  Checked hidden, heads;
  Checked query_rank;  // 0: one plain projection
  Checked key_value_rank;
  Checked plain, rotary, value;  // widths of one head
  bool bias = false;             // of the down projections and the output
  double dropout = 0;
};

LatentShape read_latent_shape(Config& config, const DecoderShape& decoder) {
  LatentShape shape;
  shape.hidden = decoder.hidden;
  shape.heads = decoder.heads.heads;
  // An explicit null says that queries have no latent; an absent key takes the class default.
  shape.query_rank =
      config.is_null("q_lora_rank") ? Checked(0) : config.size_or("q_lora_rank", 1536);
  shape.key_value_rank = config.size_or("kv_lora_rank", 512);
  shape.plain = config.size_or("qk_nope_head_dim", 128);
  shape.rotary = config.size_or("qk_rope_head_dim", 64);
  shape.value = config.size_or("v_head_dim", 128);
  shape.bias = config.flag_or("attention_bias", false);
  shape.dropout = config.fraction_or("attention_dropout", 0);
  return shape;
}

// The down projections and latents stay whole under tensor parallelism; heads are divided from the
// up projections on.
LatentAttention add_latent_attention(Tensors& tensors, const LatentShape& shape) {
  LatentAttention attention;
  attention.heads = shape.heads.value();
  attention.query_rank = shape.query_rank.value();
  attention.key_value_rank = shape.key_value_rank.value();
  attention.plain_width = shape.plain.value();
  attention.rotary_width = shape.rotary.value();
  attention.value_width = shape.value.value();
  attention.dropout = shape.dropout;
  const Checked query_head = shape.plain + shape.rotary;
  const Checked key_value_head = shape.plain + shape.value;
  const LinearOptions down{.bias = shape.bias, .split = Split::kNone};

  if (shape.query_rank == Checked(0)) {
    attention.query = add_linear(tensors, "self_attn.q_proj", shape.hidden,
                                 shape.heads * query_head, {.head_width = query_head});
  } else {
    attention.query_down =
        add_linear(tensors, "self_attn.q_a_proj", shape.hidden, shape.query_rank, down);
    attention.query_norm =
        add_norm(tensors, "self_attn.q_a_layernorm", NormKind::kRms, shape.query_rank);
    attention.query_up = add_linear(tensors, "self_attn.q_b_proj", shape.query_rank,
                                    shape.heads * query_head, {.head_width = query_head});
  }
  attention.key_value_down = add_linear(tensors, "self_attn.kv_a_proj_with_mqa", shape.hidden,
                                        shape.key_value_rank + shape.rotary, down);
  attention.key_value_norm =
      add_norm(tensors, "self_attn.kv_a_layernorm", NormKind::kRms, shape.key_value_rank);
  attention.key_value_up = add_linear(tensors, "self_attn.kv_b_proj", shape.key_value_rank,
                                      shape.heads * key_value_head, {.head_width = key_value_head});
  attention.output = add_linear(tensors, "self_attn.o_proj", shape.heads * shape.value,
                                shape.hidden, {.bias = shape.bias, .split = Split::kInputs});
  return attention;
}

struct Generation {
  std::int64_t shared_experts;
  std::int64_t leading_dense;
  bool sigmoid;
};

Architecture read_deepseek(Config& config, const Generation& generation) {
  // Latent attention has head widths of its own: hidden / heads need not be whole, and head_dim is
  // not read.
  const DecoderShape shape = read_decoder_shape(config, {.head_width = 1});
  const LatentShape latent = read_latent_shape(config, shape);
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
    if (with_experts) {
      layer.mlp = add_scored_experts(layer.parameters, shape.hidden, scored);
    } else {
      layer.mlp = add_gated_mlp(layer.parameters, "mlp.", shape.hidden, dense_width,
                                {.activation = scored.experts.activation});
    }
    layer.norms = {
        add_norm(layer.parameters, "input_layernorm", NormKind::kRms, shape.hidden),
        add_norm(layer.parameters, "post_attention_layernorm", NormKind::kRms, shape.hidden)};
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
