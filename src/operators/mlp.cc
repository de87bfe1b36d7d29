// Feed-forward networks: gated (gate, up, down) and plain (fc1, fc2).
//
//   gated, eager   keeps gate, silu(gate), up and their product: 8f bytes a token in 16 bits
//   gated, fused   keeps gate and up (4f) and the product (2f)
#include "operators/composer.h"

namespace steelyard {

template <class N>
ValueId Composer<N>::mlp(ValueId x, const DenseMlp& mlp) {
  const N width = Workbook<N>::symbol("f", mlp.width);
  const N local = width / sizes.tensor;
  const bool transformers = style.implementation == Implementation::kTransformers;
  const bool packs = style.implementation == Implementation::kMegatron ||
                     style.implementation == Implementation::kNanotron;
  const int begin = position();
  const char* owner = mlp.down.name.c_str();
  x = gathered(x, sizes.hidden, owner);
  ValueId inner;
  if (!mlp.gated) {
    const ValueId up = column_linear(x, *mlp.up, sizes.hidden, width);
    inner = transformers ? activate(up, mlp.activation, mlp.up->name.c_str())
                         : fused_activation(up, mlp.up->name.c_str());
  } else if (mlp.gate_up || packs) {
    // Training frameworks pack gate and up into one product, whatever the checkpoint stores.
    const Linear& packed = mlp.gate_up ? *mlp.gate_up : *mlp.gate;
    const ValueId both = column_linear(x, packed, sizes.hidden, N(2) * width);
    if (style.implementation == Implementation::kMegatron) {
      inner = swiglu(both, sizes.tokens, local, packed.name.c_str());
    } else {
      const std::vector<ValueId> parts =
          split(both, {sizes.tokens * local, sizes.tokens * local}, packed.name.c_str());
      const ValueId activated = activate(parts[0], mlp.activation, packed.name.c_str());
      inner = multiply(activated, parts[1], {owner, "act(gate)·up", "op.multiply.output"});
    }
  } else {
    // act(gate(x)) * up(x): the activation runs before the second product
    const ValueId gate = column_linear(x, *mlp.gate, sizes.hidden, width);
    const ValueId activated = activate(gate, mlp.activation, mlp.gate->name.c_str());
    const ValueId up = column_linear(x, *mlp.up, sizes.hidden, width);
    inner = multiply(activated, up, {owner, "act(gate)·up", "op.multiply.output"});
  }
  const ValueId y = row_linear(inner, mlp.down, width, sizes.hidden);
  if (recomputed.mlp) recompute_from(begin);
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
  if (recomputed.activation) recompute_from(begin, true);
  return y;
}

template <class N>
ValueId Composer<N>::fused_activation(ValueId x, const char* owner) {
  const int begin = position();
  const ValueId y =
      pointwise("activation", x, {owner, "activation output", "op.fused-activation.saved-input"},
                true, false);
  if (recomputed.activation) recompute_from(begin, true);
  return y;
}

template class Composer<Checked>;
template class Composer<Traced>;

}  // namespace steelyard
