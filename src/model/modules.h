// The modules that families are composed of. Each function describes one module, appends its
// tensors to the owner's list and remembers where they stand.
//
//   Layer layer;
//   layer.attention = add_attention(layer.parameters, heads, {});        self_attn.{q,k,v,o}_proj
//   layer.mlp = add_gated_mlp(layer.parameters, "mlp.", h, f);           mlp.{gate,up,down}_proj
//   layer.norms = add_pre_norms(layer.parameters, NormKind::kRms, h);   input_, post_attention_layernorm
//
// The order of the calls is the order in which transformers registers the tensors, which is the
// order in which engines bucket their gradients.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/architecture.h"
#include "quantity/checked.h"

namespace steelyard {

using Tensors = std::vector<ParameterTensor>;

// What tensor parallelism divides of a matrix: its outputs (column-parallel), its inputs
// (row-parallel, the outputs are summed), or nothing.
enum class Split : std::uint8_t { kOutputs, kInputs, kNone };

struct LinearOptions {
  bool bias = false;
  Split split = Split::kOutputs;
  bool transposed = false;
  Checked head_width = 0;
  TensorRole role = TensorRole::kMatrix;
};
Linear add_linear(Tensors& tensors, std::string name, Checked in, Checked out,
                  const LinearOptions& options = {});

// The kinds of LayerNorm have a weight and a bias, the others a weight, kWeightless nothing.
Norm add_norm(Tensors& tensors, std::string name, NormKind kind, Checked width);
// One before attention and one before the mlp, by the names that most of transformers' decoders give them.
std::vector<Norm> add_pre_norms(Tensors& tensors, NormKind kind, Checked width);

int add_tensor(Tensors& tensors, ParameterTensor tensor);
int add_tensor(Tensors& tensors, std::string name, std::vector<std::int64_t> shape,
               TensorRole role);
// Which rows of a table are read, as transformers registers beside it: int64, in memory, never trained.
int add_index_buffer(Tensors& tensors, std::string name, Checked positions);

struct HeadShape {
  Checked hidden = 0;
  Checked heads = 0;
  Checked key_value_heads = 0;
  Checked width = 0;  // of one head
  Checked rotary_width = 0;
};

struct AttentionOptions {
  std::string_view prefix = "self_attn.";
  std::string_view query = "q_proj", key = "k_proj", value = "v_proj", output = "o_proj";
  bool bias = false;  // of query, key and value
  bool output_bias = false;
  // Norms over each head of query and key, named prefix + name.
  std::optional<NormKind> query_key_norm = std::nullopt;
  std::string_view query_norm = "q_norm", key_norm = "k_norm";
  bool norm_over_whole_projection = false;
  bool output_gate = false;  // the query's projection is twice as wide
  double dropout = 0;
};
GroupedAttention add_attention(Tensors& tensors, const HeadShape& shape,
                               const AttentionOptions& options);

struct FusedAttentionOptions {
  std::string_view fused = "self_attn.qkv_proj";
  std::string_view output = "self_attn.o_proj";
  bool bias = false;
  bool output_bias = false;
  bool transposed = false;
  double dropout = 0;
};
GroupedAttention add_fused_attention(Tensors& tensors, const HeadShape& shape,
                                     const FusedAttentionOptions& options);

struct MlpOptions {
  bool bias = false;
  Activation activation = Activation::kSilu;
  bool transposed = false;
};
// prefix + gate_proj, up_proj, down_proj
DenseMlp add_gated_mlp(Tensors& tensors, std::string_view prefix, Checked hidden, Checked width,
                       const MlpOptions& options = {});
// prefix + gate_up_proj [2f, h], down_proj
DenseMlp add_fused_gated_mlp(Tensors& tensors, std::string_view prefix, Checked hidden,
                             Checked width, const MlpOptions& options = {});
DenseMlp add_plain_mlp(Tensors& tensors, std::string_view up, std::string_view down, Checked hidden,
                       Checked width, const MlpOptions& options);

struct ExpertOptions {
  Checked experts = 0;
  Checked experts_per_token = 0;
  Checked width = 0;
  std::string_view router = "mlp.gate";
  bool router_bias = false;
  Activation activation = Activation::kSilu;
  bool gated = true;    // false: no gate matrix
  bool biases = false;  // of up and down, for experts without a gate
};
// Experts as releases store them, one by one: tensor names hold a `*` for the number of the expert.
struct ExpertNames {
  std::string_view gate = "mlp.experts.*.gate_proj";
  std::string_view up = "mlp.experts.*.up_proj";
  std::string_view down = "mlp.experts.*.down_proj";
};
ExpertMlp add_separate_experts(Tensors& tensors, Checked hidden, const ExpertOptions& options,
                               const ExpertNames& names = {});
// Experts in two tensors, gate_up [E, h, 2f] and down [E, f, h], with or without biases.
ExpertMlp add_fused_experts(Tensors& tensors, std::string_view prefix, Checked hidden,
                            const ExpertOptions& options, bool biases);

}  // namespace steelyard
