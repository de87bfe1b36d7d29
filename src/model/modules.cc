#include "model/modules.h"

#include <utility>

namespace steelyard {
namespace {

std::string joined(std::string_view prefix, std::string_view name) {
  std::string text(prefix);
  text += name;
  return text;
}

ExpertMlp begin_experts(Tensors& tensors, Checked hidden, const ExpertOptions& options) {
  ExpertMlp mlp;
  mlp.experts = options.experts.value();
  mlp.experts_per_token = options.experts_per_token.value();
  mlp.width = options.width.value();
  mlp.activation = options.activation;
  // The router is whole on every rank: each chooses among all experts.
  mlp.router =
      add_linear(tensors, std::string(options.router), hidden, options.experts,
                 {.bias = options.router_bias, .split = Split::kNone, .role = TensorRole::kRouter});
  return mlp;
}

int add_separate_expert_matrix(Tensors& tensors, std::string_view name, Checked in, Checked out,
                               TensorCut cut, std::int64_t experts) {
  ParameterTensor tensor;
  tensor.name = joined(name, ".weight");
  tensor.shape = {out.value(), in.value()};
  tensor.cut = cut;
  tensor.routed_expert = true;
  tensor.copies = experts;
  return add_tensor(tensors, std::move(tensor));
}

int add_separate_expert_bias(Tensors& tensors, std::string_view name, Checked width, TensorCut cut,
                             std::int64_t experts) {
  ParameterTensor tensor;
  tensor.name = joined(name, ".bias");
  tensor.shape = {width.value()};
  tensor.role = TensorRole::kBias;
  tensor.cut = cut;
  tensor.routed_expert = true;
  tensor.copies = experts;
  return add_tensor(tensors, std::move(tensor));
}

int add_fused_expert_tensor(Tensors& tensors, std::string name, std::vector<std::int64_t> shape,
                            TensorRole role, TensorCut cut) {
  ParameterTensor tensor;
  tensor.name = std::move(name);
  tensor.shape = std::move(shape);
  tensor.role = role;
  tensor.cut = cut;
  tensor.routed_expert = true;
  tensor.fused_experts = true;
  return add_tensor(tensors, std::move(tensor));
}

}  // namespace

int add_tensor(Tensors& tensors, ParameterTensor tensor) {
  tensors.push_back(std::move(tensor));
  return static_cast<int>(tensors.size()) - 1;
}

int add_tensor(Tensors& tensors, std::string name, std::vector<std::int64_t> shape,
               TensorRole role) {
  ParameterTensor tensor;
  tensor.name = std::move(name);
  tensor.shape = std::move(shape);
  tensor.role = role;
  return add_tensor(tensors, std::move(tensor));
}

int add_index_buffer(Tensors& tensors, std::string name, Checked positions) {
  const int index = add_tensor(tensors, std::move(name), {positions.value()}, TensorRole::kOther);
  tensors.back().buffer = true;
  tensors.back().buffer_type = ElementType::kInt64;
  return index;
}

Linear add_linear(Tensors& tensors, std::string name, Checked in, Checked out,
                  const LinearOptions& options) {
  Linear linear;
  linear.name = std::move(name);
  linear.in = in.value();
  linear.out = out.value();
  linear.bias = options.bias;
  linear.stored_transposed = options.transposed;

  ParameterTensor weight;
  weight.name = linear.name + ".weight";
  weight.shape = {linear.out, linear.in};
  if (options.transposed) std::swap(weight.shape[0], weight.shape[1]);
  weight.role = options.role;
  weight.head_width = options.head_width.value();
  if (options.split != Split::kNone) {
    const bool rows = (options.split == Split::kOutputs) != options.transposed;
    weight.cut = rows ? TensorCut::kRows : TensorCut::kColumns;
  }
  linear.weight_index = add_tensor(tensors, std::move(weight));

  if (options.bias) {
    ParameterTensor bias;
    bias.name = linear.name + ".bias";
    bias.shape = {linear.out};
    bias.role = TensorRole::kBias;
    bias.head_width = options.head_width.value();
    // The bias of a row-parallel matrix is added once, after the sum: every rank has all of it.
    if (options.split == Split::kOutputs) bias.cut = TensorCut::kRows;
    linear.bias_index = add_tensor(tensors, std::move(bias));
  }
  return linear;
}

Norm add_norm(Tensors& tensors, std::string name, NormKind kind, Checked width) {
  Norm norm;
  norm.name = std::move(name);
  norm.kind = kind;
  norm.width = width.value();
  norm.bias = kind == NormKind::kLayerNorm || kind == NormKind::kLayerNormUnitOffset;
  const auto add = [&](std::string_view part) {
    return add_tensor(tensors, joined(norm.name, part), {norm.width}, TensorRole::kNorm);
  };
  if (kind != NormKind::kWeightless) norm.weight_index = add(".weight");
  if (norm.bias) norm.bias_index = add(".bias");
  return norm;
}

std::vector<Norm> add_pre_norms(Tensors& tensors, NormKind kind, Checked width) {
  return {add_norm(tensors, "input_layernorm", kind, width),
          add_norm(tensors, "post_attention_layernorm", kind, width)};
}

GroupedAttention add_attention(Tensors& tensors, const HeadShape& shape,
                               const AttentionOptions& options) {
  GroupedAttention attention;
  attention.heads = shape.heads.value();
  attention.key_value_heads = shape.key_value_heads.value();
  attention.head_width = shape.width.value();
  attention.rotary_width = shape.rotary_width.value();
  attention.dropout = options.dropout;
  const Checked query_width = shape.heads * shape.width;
  const Checked key_width = shape.key_value_heads * shape.width;
  const LinearOptions projection{.bias = options.bias, .head_width = shape.width};
  const auto named = [&](std::string_view name) { return joined(options.prefix, name); };

  attention.output_gate = options.output_gate;
  attention.query =
      add_linear(tensors, named(options.query), shape.hidden,
                 options.output_gate ? Checked(2) * query_width : query_width, projection);
  attention.key = add_linear(tensors, named(options.key), shape.hidden, key_width, projection);
  attention.value = add_linear(tensors, named(options.value), shape.hidden, key_width, projection);
  attention.output = add_linear(tensors, named(options.output), query_width, shape.hidden,
                                {.bias = options.output_bias, .split = Split::kInputs});
  if (options.query_key_norm) {
    attention.norm_over_whole_projection = options.norm_over_whole_projection;
    const bool whole = options.norm_over_whole_projection;
    attention.query_norm = add_norm(tensors, named(options.query_norm), *options.query_key_norm,
                                    whole ? query_width : shape.width);
    attention.key_norm = add_norm(tensors, named(options.key_norm), *options.query_key_norm,
                                  whole ? key_width : shape.width);
  }
  return attention;
}

GroupedAttention add_fused_attention(Tensors& tensors, const HeadShape& shape,
                                     const FusedAttentionOptions& options) {
  GroupedAttention attention;
  attention.heads = shape.heads.value();
  attention.key_value_heads = shape.key_value_heads.value();
  attention.head_width = shape.width.value();
  attention.rotary_width = shape.rotary_width.value();
  attention.dropout = options.dropout;
  const Checked all = (shape.heads + Checked(2) * shape.key_value_heads) * shape.width;
  attention.fused = add_linear(
      tensors, std::string(options.fused), shape.hidden, all,
      {.bias = options.bias, .transposed = options.transposed, .head_width = shape.width});
  attention.output = add_linear(
      tensors, std::string(options.output), shape.heads * shape.width, shape.hidden,
      {.bias = options.output_bias, .split = Split::kInputs, .transposed = options.transposed});
  return attention;
}

DenseMlp add_gated_mlp(Tensors& tensors, std::string_view prefix, Checked hidden, Checked width,
                       const MlpOptions& options) {
  DenseMlp mlp;
  mlp.activation = options.activation;
  mlp.width = width.value();
  mlp.gate =
      add_linear(tensors, joined(prefix, "gate_proj"), hidden, width, {.bias = options.bias});
  mlp.up = add_linear(tensors, joined(prefix, "up_proj"), hidden, width, {.bias = options.bias});
  mlp.down = add_linear(tensors, joined(prefix, "down_proj"), width, hidden,
                        {.bias = options.bias, .split = Split::kInputs});
  return mlp;
}

DenseMlp add_fused_gated_mlp(Tensors& tensors, std::string_view prefix, Checked hidden,
                             Checked width, const MlpOptions& options) {
  DenseMlp mlp;
  mlp.activation = options.activation;
  mlp.width = width.value();
  mlp.gate_up = add_linear(tensors, joined(prefix, "gate_up_proj"), hidden, Checked(2) * width,
                           {.bias = options.bias});
  mlp.down = add_linear(tensors, joined(prefix, "down_proj"), width, hidden,
                        {.bias = options.bias, .split = Split::kInputs});
  return mlp;
}

DenseMlp add_plain_mlp(Tensors& tensors, std::string_view up, std::string_view down, Checked hidden,
                       Checked width, const MlpOptions& options) {
  DenseMlp mlp;
  mlp.gated = false;
  mlp.activation = options.activation;
  mlp.width = width.value();
  mlp.up = add_linear(tensors, std::string(up), hidden, width,
                      {.bias = options.bias, .transposed = options.transposed});
  mlp.down =
      add_linear(tensors, std::string(down), width, hidden,
                 {.bias = options.bias, .split = Split::kInputs, .transposed = options.transposed});
  return mlp;
}

ExpertMlp add_separate_experts(Tensors& tensors, Checked hidden, const ExpertOptions& options,
                               const ExpertNames& names) {
  ExpertMlp mlp = begin_experts(tensors, hidden, options);
  mlp.gated = options.gated;
  if (options.gated)
    mlp.gate_index = add_separate_expert_matrix(tensors, names.gate, hidden, options.width,
                                                TensorCut::kRows, mlp.experts);
  mlp.up_index = add_separate_expert_matrix(tensors, names.up, hidden, options.width,
                                            TensorCut::kRows, mlp.experts);
  const bool biased = options.biases && !options.gated;
  mlp.expert_biases = biased;
  if (biased)
    mlp.up_bias_index =
        add_separate_expert_bias(tensors, names.up, options.width, TensorCut::kRows, mlp.experts);
  mlp.down_index = add_separate_expert_matrix(tensors, names.down, options.width, hidden,
                                              TensorCut::kColumns, mlp.experts);
  if (biased)
    mlp.down_bias_index =
        add_separate_expert_bias(tensors, names.down, hidden, TensorCut::kReplicated, mlp.experts);
  return mlp;
}

ExpertMlp add_fused_experts(Tensors& tensors, std::string_view prefix, Checked hidden,
                            const ExpertOptions& options, bool biases) {
  ExpertMlp mlp = begin_experts(tensors, hidden, options);
  const std::int64_t in = hidden.value();
  const std::int64_t both = (Checked(2) * options.width).value();
  mlp.expert_biases = biases;
  // Stored [in, out] after the expert: the cut dimension of gate and up is the last, of down the
  // one before.
  mlp.gate_up_index =
      add_fused_expert_tensor(tensors, joined(prefix, "gate_up_proj"), {mlp.experts, in, both},
                              TensorRole::kMatrix, TensorCut::kColumns);
  if (biases)
    mlp.gate_up_bias_index =
        add_fused_expert_tensor(tensors, joined(prefix, "gate_up_proj_bias"), {mlp.experts, both},
                                TensorRole::kBias, TensorCut::kRows);
  mlp.down_index =
      add_fused_expert_tensor(tensors, joined(prefix, "down_proj"), {mlp.experts, mlp.width, in},
                              TensorRole::kMatrix, TensorCut::kRows);
  if (biases)
    mlp.down_bias_index =
        add_fused_expert_tensor(tensors, joined(prefix, "down_proj_bias"), {mlp.experts, in},
                                TensorRole::kBias, TensorCut::kReplicated);
  return mlp;
}

}  // namespace steelyard
