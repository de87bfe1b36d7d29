// GPT-J: parallel block under one norm, attention without biases, mlp and head with them, 64 of
// each head rotated.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "model/decoder.h"
#include "model/families/families.h"

namespace steelyard {
namespace {

// Sines beside cosines for every position that the model knows, fp32 and not in the checkpoint.
int add_position_table(Tensors& tensors, const DecoderShape& shape) {
  ParameterTensor table;
  table.name = "attn.embed_positions";
  table.shape = {std::max<std::int64_t>(shape.positions.value(), 1),
                 shape.heads.rotary_width.value()};
  table.role = TensorRole::kOther;
  table.buffer = true;
  return add_tensor(tensors, std::move(table));
}

}  // namespace

Architecture read_gptj(Config& config) {
  DecoderShape shape = read_decoder_shape(config, {});
  const Checked width = config.find_size("intermediate_size").value_or(Checked(4) * shape.hidden);
  if (!config.is_null("rotary_dim")) shape.heads.rotary_width = config.count_or("rotary_dim", 64);
  if (shape.heads.width > Checked(0) && shape.heads.rotary_width > shape.heads.width)
    config.refuse("rotary_dim", "E305",
                  fmt::format("{} elements of each head are rotated, and a head has {}",
                              shape.heads.rotary_width.value(), shape.heads.width.value()),
                  fmt::format("expected at most {}", shape.heads.width.value()));

  Layer layer;
  layer.arrangement = Arrangement::kParallelOneNorm;
  layer.norms = {add_norm(layer.parameters, "ln_1", NormKind::kLayerNorm, shape.hidden)};
  GroupedAttention attention = add_attention(
      layer.parameters, shape.heads,
      {.prefix = "attn.", .output = "out_proj", .dropout = config.fraction_or("attn_pdrop", 0)});
  attention.scores_in_float32 = true;
  attention.rotary_form = RotaryForm::kOwnTables;
  attention.joins_rotated_parts = true;
  attention.position_table_index = add_position_table(layer.parameters, shape);
  layer.attention = std::move(attention);
  layer.mlp = add_plain_mlp(
      layer.parameters, "mlp.fc_in", "mlp.fc_out", shape.hidden, width,
      {.bias = true, .activation = config.activation_or("hidden_act", Activation::kGeluPython)});
  layer.residual_dropout = config.fraction_or("resid_pdrop", 0);

  Architecture model = begin_decoder(shape, {.embedding = "transformer.wte.weight",
                                             .layers = "transformer.h.",
                                             .final_norm = "transformer.ln_f",
                                             .final_norm_kind = NormKind::kLayerNorm,
                                             .head_bias = true});
  model.rotary_tables = 0;
  model.embedding_dropout = config.fraction_or("embd_pdrop", 0);
  set_layers(model, std::move(layer));
  return model;
}

}  // namespace steelyard
