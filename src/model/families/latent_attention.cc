#include "model/families/latent_attention.h"

namespace steelyard {

LatentShape read_latent_shape(Config& config, Checked hidden, Checked heads) {
  LatentShape shape;
  shape.hidden = hidden;
  shape.heads = heads;
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
        add_norm(tensors, "self_attn.q_a_layernorm", shape.norm, shape.query_rank);
    attention.query_up = add_linear(tensors, "self_attn.q_b_proj", shape.query_rank,
                                    shape.heads * query_head, {.head_width = query_head});
  }
  attention.key_value_down = add_linear(tensors, "self_attn.kv_a_proj_with_mqa", shape.hidden,
                                        shape.key_value_rank + shape.rotary, down);
  attention.key_value_norm =
      add_norm(tensors, "self_attn.kv_a_layernorm", shape.norm, shape.key_value_rank);
  attention.key_value_up = add_linear(tensors, "self_attn.kv_b_proj", shape.key_value_rank,
                                      shape.heads * key_value_head, {.head_width = key_value_head});
  attention.output = add_linear(tensors, "self_attn.o_proj", shape.heads * shape.value,
                                shape.hidden, {.bias = shape.bias, .split = Split::kInputs});
  return attention;
}

}  // namespace steelyard
