// Feed-forward networks: gated (gate, up, down) and plain (fc1, fc2).
//
//   gated, eager   keeps gate, silu(gate), up and their product: 8f bytes a token in 16 bits
//   gated, fused   keeps gate and up (4f) and the product (2f)
//   gated, Liger   the same from two tensors, whose gradients overwrite them
#include "operators/composer.h"

namespace steelyard {

template <class N>
ValueId Composer<N>::mlp(ValueId x, const DenseMlp& mlp) {
  const N width = Workbook<N>::symbol("f", mlp.width);
  const N local = width / sizes.tensor;
  const bool transformers = style.implementation == Implementation::kTransformers;
  const bool litgpt = style.implementation == Implementation::kLitgpt;
  const bool packs = style.implementation == Implementation::kMegatron ||
                     style.implementation == Implementation::kNanotron;
  const int begin = position();
  const char* owner = mlp.down.name.c_str();
  x = gathered(x, sizes.hidden, owner);
  ValueId inner;
  if (!mlp.gated) {
    const ValueId up = column_linear(x, *mlp.up, sizes.hidden, width);
    inner = (transformers && !style.compiled) || style.local_layers || litgpt
                ? activate(up, mlp.activation, mlp.up->name.c_str())
                : fused_activation(up, mlp.up->name.c_str());
  } else if (mlp.gate_up || packs) {
    // Training frameworks pack gate and up into one product, whatever the checkpoint stores.
    const Linear& packed = mlp.gate_up ? *mlp.gate_up : *mlp.gate;
    const ValueId both = column_linear(x, packed, sizes.hidden, N(2) * width);
    if ((style.implementation == Implementation::kMegatron && !style.local_layers) ||
        style.compiled) {
      inner = swiglu(both, sizes.tokens, local, packed.name.c_str());
    } else {
      const std::vector<ValueId> parts =
          split(both, {sizes.tokens * local, sizes.tokens * local}, packed.name.c_str());
      const ValueId activated = activate(parts[0], mlp.activation, packed.name.c_str());
      const ValueId up = style.local_layers ? offset(parts[1], owner) : parts[1];
      inner = multiply(activated, up, {owner, "act(gate)·up", "op.multiply.output"});
    }
  } else {
    // act(gate(x)) * up(x): the activation runs before the second product
    const ValueId gate = column_linear(x, *mlp.gate, sizes.hidden, width);
    if (style.liger || style.compiled) {
      inner = gated_in_one(gate, column_linear(x, *mlp.up, sizes.hidden, width), owner);
      const ValueId y = row_linear(inner, mlp.down, width, sizes.hidden);
      if (recomputed.mlp) recompute_from(begin);
      return y;
    }
    // Aleph Alpha's scaling and litgpt have both products before they activate one.
    const bool both_first = style.implementation == Implementation::kScaling || litgpt;
    ValueId up = both_first ? column_linear(x, *mlp.up, sizes.hidden, width) : kNoValue;
    const ValueId activated = activate(gate, mlp.activation, mlp.gate->name.c_str());
    if (!both_first) up = column_linear(x, *mlp.up, sizes.hidden, width);
    inner = multiply(activated, up, {owner, "act(gate)·up", "op.multiply.output"});
  }
  if (mlp.inner_dropout) {
    inner = dropout(inner, style.residual_dropout, owner);
    // Asked for in the type of the weight, though autocast multiplies in another.
    if (style.autocast)
      inner = cast(inner, style.residual, {owner, "input, fp32", "op.feed-forward.cast"});
  }
  const ValueId y = row_linear(inner, mlp.down, width, sizes.hidden);
  if (mlp.inner_dropout) graph.hold(inner);  // the module's name for it
  if (recomputed.mlp) recompute_from(begin);
  return y;
}

// up + glu_linear_offset, though that is 0 (megatron/core/transformer/mlp.py): a copy whose gradient is that of the sum.
template <class N>
ValueId Composer<N>::offset(ValueId up, const char* owner) {
  const ValueId y = graph.tensor({owner, "up + 0", "op.local-mlp.offset"}, graph.elements(up),
                                 graph.type(up), true);
  Operator operation;
  operation.label = "add";
  operation.inputs = {up};
  operation.outputs = {y};
  operation.backward = {kAlias0};
  graph.add(operation);
  return y;
}

// One kernel from the packed product to silu(gate)·up: keeps its input (megatron/core/fusions/fused_bias_swiglu.py).
template <class N>
ValueId Composer<N>::swiglu(ValueId gate_up, const N& rows, const N& width, const char* owner) {
  const ValueId y = graph.tensor({owner, "swiglu output", "op.fused-swiglu.output"}, rows * width,
                                 style.compute, true);
  const int begin = position();
  Operator operation;
  operation.label = "swiglu";
  operation.inputs = {gate_up};
  operation.outputs = {y};
  operation.saved = {gate_up};
  operation.backward = {{BackwardStep::kInputGradient, 0, -1}};
  graph.add(operation);
  if (recomputed.activation || style.compiled) recompute_from(begin, recomputed.activation);
  return y;
}

// act(gate)·up in one kernel that keeps both. Liger's backward writes their gradients over them (ops/swiglu.py, ops/geglu.py).
template <class N>
ValueId Composer<N>::gated_in_one(ValueId gate, ValueId up, const char* owner) {
  const int begin = position();
  const ValueId y = graph.tensor(
      {owner, "act(gate)·up", style.liger ? "op.liger-gated.output" : "op.compiled.output"},
      graph.elements(gate), graph.type(gate), true);
  Operator operation;
  operation.label = "gated";
  operation.inputs = {gate, up};
  operation.outputs = {y};
  operation.saved = {gate, up};
  const BackwardStep::Kind kind =
      style.liger ? BackwardStep::kInPlaceGradient : BackwardStep::kInputGradient;
  operation.backward = {{kind, 0, -1}, {kind, 1, -1}};
  graph.add(operation);
  if (style.compiled && !style.liger) recompute_from(begin);
  return y;
}

template <class N>
ValueId Composer<N>::fused_activation(ValueId x, const char* owner) {
  const int begin = position();
  const ValueId y =
      pointwise("activation", x, {owner, "activation output", "op.fused-activation.saved-input"},
                {.input = true});
  if (recomputed.activation || style.compiled) recompute_from(begin, recomputed.activation);
  return y;
}

template class Composer<Checked>;
template class Composer<Traced>;

}  // namespace steelyard
