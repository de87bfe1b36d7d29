// Multi-head latent attention of DeepSeek's models: queries, keys and values from narrow latents.
//
//   const LatentShape shape = read_latent_shape(config, hidden, heads);     q_lora_rank, kv_lora_rank, ...
//   layer.attention = add_latent_attention(layer.parameters, shape);        self_attn.{q_a_proj, ...}
#pragma once

#include "model/architecture.h"
#include "model/config.h"
#include "model/modules.h"

namespace steelyard {

struct LatentShape {
  Checked hidden, heads;
  Checked query_rank;  // 0: one plain projection
  Checked key_value_rank;
  Checked plain, rotary, value;  // widths of one head
  bool bias = false;             // of the down projections and the output
  NormKind norm = NormKind::kRms;
  double dropout = 0;
};

LatentShape read_latent_shape(Config& config, Checked hidden, Checked heads);

// The down projections and latents stay whole under tensor parallelism; heads are divided from the
// up projections on.
LatentAttention add_latent_attention(Tensors& tensors, const LatentShape& shape);

}  // namespace steelyard
