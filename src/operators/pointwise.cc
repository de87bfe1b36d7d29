// Pointwise operators: casts, sums, products, activations, dropout.
// What is saved follows tools/autograd/derivatives.yaml; sizes are whole tensors of the micro-batch.
#include "operators/composer.h"

namespace steelyard {

namespace {
// torch.promote_types, of what is multiplied and added here: whole numbers and truths widen nothing.
ElementType promoted(ElementType x, ElementType y) {
  const auto fraction = [](ElementType type) {
    return type != ElementType::kInt64 && type != ElementType::kBool;
  };
  if (fraction(x) != fraction(y)) return fraction(x) ? x : y;
  return bits_of(x) >= bits_of(y) ? x : y;
}
}  // namespace

template <class N>
ValueId Composer<N>::single(const char* label, ValueId x, const SlotName& name, const N& elements,
                            ElementType type, Keeps keeps, const Few<BackwardStep, 14>& before) {
  const ValueId y = graph.tensor(name, elements, type, graph.needs_gradient(x));
  Operator operation;
  operation.label = label;
  operation.inputs = {x};
  operation.outputs = {y};
  if (keeps.input) operation.saved.push_back(x);
  if (keeps.output) operation.saved.push_back(y);
  operation.backward = before;
  operation.backward.push_back(kGradient0);
  graph.add(operation);
  return y;
}

template <class N>
ValueId Composer<N>::cast(ValueId x, ElementType type, const SlotName& name) {
  return graph.type(x) == type ? x : single("cast", x, name, graph.elements(x), type, {});
}

// The gradient of a sum is the gradient of both: one tensor, held twice. Where types differ, one branch gets a cast copy.
template <class N>
ValueId Composer<N>::add(ValueId x, ValueId y, const SlotName& name) {
  const ElementType wider = promoted(graph.type(x), graph.type(y));
  const ValueId sum = graph.tensor(name, graph.elements(x), wider,
                                   graph.needs_gradient(x) || graph.needs_gradient(y));
  Operator operation;
  operation.label = "add";
  operation.inputs = {x, y};
  operation.outputs = {sum};
  operation.backward.push_back(graph.type(x) == wider ? kAlias0 : kGradient0);
  operation.backward.push_back(graph.type(y) == wider ? kAlias1 : kGradient1);
  graph.add(operation);
  return sum;
}

template <class N>
ValueId Composer<N>::multiply(ValueId x, ValueId y, const SlotName& name) {
  const ValueId product =
      graph.tensor(name, graph.elements(x), promoted(graph.type(x), graph.type(y)),
                   graph.needs_gradient(x) || graph.needs_gradient(y));
  Operator operation;
  operation.label = "multiply";
  operation.inputs = {x, y};
  operation.outputs = {product};
  if (graph.needs_gradient(y)) operation.saved.push_back(x);
  if (graph.needs_gradient(x)) operation.saved.push_back(y);
  operation.backward = {kGradient1, kGradient0};
  graph.add(operation);
  return product;
}

template <class N>
ValueId Composer<N>::scale(ValueId x, const SlotName& name) {
  return pointwise("scale", x, name);
}

template <class N>
ValueId Composer<N>::copy(ValueId x, const SlotName& name) {
  return pointwise("copy", x, name);
}

template <class N>
ValueId Composer<N>::laid_out(ValueId x, const SlotName& name) {
  const ValueId y = graph.tensor(name, graph.elements(x), graph.type(x), graph.needs_gradient(x));
  Operator copy;
  copy.label = "copy";
  copy.inputs = {x};
  copy.outputs = {y};
  copy.backward = {kAlias0};
  graph.add(copy);
  return y;
}

template <class N>
ValueId Composer<N>::square(ValueId x, const SlotName& name) {
  // grad * 2 * x.pow(1): a copy, twice the copy, the product
  const BackwardStep copied{
      BackwardStep::kTemporary, 0,
      graph.temporary({name.owner, "gradient of the squares, unscaled", "op.pow.backward"},
                      graph.elements(x), graph.type(x))};
  return single("pow", x, name, graph.elements(x), graph.type(x), {true, false}, {copied, copied});
}

template <class N>
ValueId Composer<N>::made(const char* label, const Few<ValueId, 6>& inputs, const SlotName& name,
                          const N& elements, ElementType type) {
  const ValueId y = graph.tensor(name, elements, type, false);
  Operator operation;
  operation.label = label;
  operation.inputs = inputs;
  operation.outputs = {y};
  graph.add(operation);
  return y;
}

template <class N>
ValueId Composer<N>::viewed(const char* label, ValueId x, const N& elements,
                            const BackwardStep& gradient) {
  const ValueId y = graph.view(x, elements);
  Operator operation;
  operation.label = label;
  operation.inputs = {x};
  operation.outputs = {y};
  operation.backward = {gradient};
  graph.add(operation);
  return y;
}

template <class N>
ValueId Composer<N>::joined(const Few<ValueId, 6>& parts, const SlotName& name, const N& elements) {
  bool trained = false;
  Operator join;
  join.label = "concatenate";
  for (std::size_t i = 0; i < parts.size(); ++i) {
    trained = trained || graph.needs_gradient(parts[i]);
    join.inputs.push_back(parts[i]);
    join.backward.push_back({BackwardStep::kAliasGradient, static_cast<int>(i), -1});
  }
  const ValueId whole = graph.tensor(name, elements, graph.type(parts[0]), trained);
  join.outputs = {whole};
  graph.add(join);
  return whole;
}

template <class N>
ValueId Composer<N>::reshaped(ValueId x, bool gradient_copied) {
  return viewed("reshape", x, graph.elements(x), gradient_copied ? kGradient0 : kAlias0);
}

template <class N>
ValueId Composer<N>::activate(ValueId x, Activation activation, const char* owner) {
  switch (activation) {
    case Activation::kSilu:
      return pointwise("silu", x, {owner, "silu(gate)", "op.silu.saved-input"}, {.input = true});
    case Activation::kGeluErf:
    case Activation::kGeluTanh:
      return pointwise("gelu", x, {owner, "gelu output", "op.gelu.saved-input"}, {.input = true});
    case Activation::kGeluCustom:
      return pointwise("gelu", x, {owner, "gelu output", "op.bloom-gelu.saved-input"},
                       {.input = true});
    case Activation::kRelu:
      return pointwise("relu", x, {owner, "relu output", "op.relu.saved-output"}, {.output = true});
    case Activation::kSquaredRelu: {
      ValueId positive =
          pointwise("relu", x, {owner, "relu output", "op.relu.saved-output"}, {.output = true});
      // autocast's list of fp32 operators has pow
      if (style.autocast)
        positive = cast(positive, ElementType::kFloat32,
                        {owner, "relu output, fp32", "autocast.fp32-operator"});
      return square(positive, {owner, "squared relu output", "op.squared-relu.output"});
    }
    case Activation::kQuickGelu: {
      const ValueId inner = scale(x, {owner, "1.702 x", "op.scale"});
      const ValueId gate =
          pointwise("sigmoid", inner, {owner, "sigmoid(1.702 x)", "op.sigmoid.saved-output"},
                    {.output = true});
      return multiply(x, gate, {owner, "quick gelu output", "op.multiply.saved-factors"});
    }
    case Activation::kGeluPython: {
      // 0.5 * x * (1 + tanh(sqrt(2/pi) * (x + 0.044715 * x^3))), each term its own operator
      const ValueId half = scale(x, {owner, "0.5 x", "op.scale"});
      // autocast's list of fp32 operators has pow; what follows is promoted
      const ValueId base = style.autocast ? cast(x, ElementType::kFloat32,
                                                 {owner, "x, fp32", "autocast.fp32-operator"})
                                          : x;
      const ValueId cube =
          pointwise("pow", base, {owner, "x^3", "op.pow.saved-input"}, {.input = true});
      const ValueId small = scale(cube, {owner, "0.044715 x^3", "op.scale"});
      const ValueId inner = add(x, small, {owner, "x + 0.044715 x^3", "op.add"});
      const ValueId scaled = scale(inner, {owner, "sqrt(2/pi) (...)", "op.scale"});
      const ValueId tanh =
          pointwise("tanh", scaled, {owner, "tanh", "op.tanh.saved-output"}, {.output = true});
      const ValueId one = scale(tanh, {owner, "1 + tanh", "op.scale"});
      return multiply(half, one, {owner, "gelu output", "op.multiply.saved-factors"});
    }
    case Activation::kClampedSwiglu:
      return pointwise("activation", x, {owner, "activation output", "op.silu.saved-input"},
                       {.input = true});
  }
  return x;
}

template <class N>
ValueId Composer<N>::dropout(ValueId x, double probability, const char* owner) {
  if (probability <= 0) return x;
  const ValueId y = graph.tensor({owner, "dropout output", "op.dropout.output"}, graph.elements(x),
                                 graph.type(x), graph.needs_gradient(x));
  const ValueId mask = graph.tensor({owner, "dropout mask", "op.dropout.saved-mask"},
                                    graph.elements(x), ElementType::kBool, false);
  Operator operation;
  operation.label = "dropout";
  operation.inputs = {x};
  operation.outputs = {y, mask};
  operation.saved = {mask};
  operation.backward = {kGradient0};
  graph.add(operation);
  return y;
}

template class Composer<Checked>;
template class Composer<Traced>;

}  // namespace steelyard
