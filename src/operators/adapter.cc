// Adapters beside a frozen product: LoRA, and DoRA with a length for each output.
//
//   y = x W^T                          keeps nothing of x: W is not trained
//   x', the input in A's type          kept for A's gradient: where the types differ, a copy for each module
//   a = x' A^T   r wide, kept          for B's gradient
//   y + scale · a B^T                  in the wider of both types, then back
//
// DoRA multiplies what both give by a learned length over the norm of W + scale · BA, and makes that matrix in every
// forward. Sources: peft/tuners/lora/{layer,bnb,dora,variants}.py (0.21).
#include "operators/composer.h"

namespace steelyard {

// x A^T B^T. `narrow`: what A gives.
template <class N>
ValueId Composer<N>::low_rank(ValueId x, const Linear& linear, const N& rows, const N& in,
                              const N& out, ValueId* narrow) {
  const LowRank& adapter = *linear.adapter;
  const N rank = Workbook<N>::symbol("r", adapter.rank);
  const char* owner = linear.name.c_str();
  Factor factor;
  factor.type = style.autocast ? style.compute : style.adapter_compute;
  factor.weight_gradient = parameter(adapter.down_index, rank * in);
  const ValueId a = product(x, {owner, "x A", "adapter.narrow-output"}, rows, in, rank, factor);
  factor.weight_gradient = parameter(adapter.up_index, out * rank);
  if (narrow != nullptr) *narrow = a;
  return product(a, {owner, "x A B", "adapter.output"}, rows, rank, out, factor);
}

template <class N>
ValueId Composer<N>::adapted(ValueId x, ValueId y, const Linear& linear, const N& rows, const N& in,
                             const N& out) {
  const char* owner = linear.name.c_str();
  const std::optional<ElementType> stored = stored_type(linear.weight_index);
  const bool over_bitsandbytes = stored && is_quantised(*stored) && style.adapter->by_peft;
  const ElementType result_type = graph.type(y);
  if (over_bitsandbytes) {  // result.clone()
    const ValueId clone = graph.tensor({owner, "output, cloned", "adapter.cloned-output"},
                                       graph.elements(y), graph.type(y), graph.needs_gradient(y));
    Operator copies;
    copies.label = "clone";
    copies.inputs = {y};
    copies.outputs = {clone};
    copies.backward = {kAlias0};
    graph.add(copies);
    y = clone;
  }
  // Over bitsandbytes PEFT leaves the cast to autocast, where that is on.
  ValueId input = x;
  if (style.adapter->by_peft && !(over_bitsandbytes && style.autocast))
    input = cast(x, style.adapter_compute,
                 {owner, "input, cast for the adapter", "adapter.input-cast"});
  ValueId sum;
  if (linear.adapter->magnitude_index >= 0) {
    sum = with_magnitude(input, y, linear, rows, in, out);
  } else {
    const ValueId dropped = dropout(input, style.adapter->dropout, owner);
    ValueId narrow = kNoValue;
    ValueId added = scale(low_rank(dropped, linear, rows, in, out, &narrow),
                          {owner, "x A B, scaled", "adapter.output"});
    // torchtune has one name for what A gives and for what the adapter adds (torchtune/modules/peft/lora.py).
    if (style.implementation == Implementation::kTorchtune) graph.hold(narrow);
    if (over_bitsandbytes && !style.autocast)
      added = cast(added, result_type, {owner, "x A B, cast back", "adapter.output"});
    sum = add(y, added, {owner, "output with its adapter", "adapter.sum"});
    if (over_bitsandbytes) graph.hold(added);
  }
  const ValueId result =
      over_bitsandbytes && style.autocast
          ? sum
          : cast(sum, result_type, {owner, "output with its adapter", "adapter.sum"});
  // Until the module returns its caller holds what it gave, and the module what it has made of that.
  graph.hold(x);
  graph.hold(input);
  return result;
}

// peft/tuners/lora/dora.py, DoraLinearLayer.forward: the matrix BA comes from the product with an identity, and stays
// with the widened weight until the module's forward returns; their norm is no part of the graph.
template <class N>
ValueId Composer<N>::with_magnitude(ValueId x, ValueId base, const Linear& linear, const N& rows,
                                    const N& in, const N& out) {
  const char* owner = linear.name.c_str();
  const ElementType type = style.autocast ? style.compute : style.adapter_compute;
  const ElementType wide = graph.type(x);
  const N rank = Workbook<N>::symbol("r", linear.adapter->rank);
  const char* rule = "adapter.dora-weights";
  std::vector<ValueId> held;
  const auto made = [&](const char* name, const N& elements, ElementType of,
                        const Few<ValueId, 6>& inputs) {
    const ValueId y = graph.tensor({owner, name, rule}, elements, of, false);
    Operator operation;
    operation.label = name;
    operation.inputs = inputs;
    operation.outputs = {y};
    graph.add(operation);
    held.push_back(y);
  };
  made("identity", in * in, style.adapter_compute, {});
  if (style.autocast && style.adapter_compute != type) made("identity, cast", in * in, type, {});
  made("A", in * rank, type, {});
  made("B A", in * out, type, {});
  if (type != wide) made("B A, widened", in * out, wide, {});
  const std::optional<ElementType> stored = stored_type(linear.weight_index);
  if (stored && is_quantised(*stored)) held.push_back(dequantised(owner, *stored, in, out));
  const ElementType kept = stored && !is_quantised(*stored) ? *stored : style.quantised_compute;
  if (kept != wide) made("weight, widened", in * out, wide, {});
  const ValueId matrix =
      graph.tensor({owner, "weight with its adapter", rule}, in * out, wide, false);
  Operator add_weights;
  add_weights.label = "add weights";
  add_weights.outputs = {matrix};
  add_weights.passing = {graph.temporary({owner, "B A, scaled", rule}, in * out, wide)};
  graph.add(add_weights);
  made("norm of each output's weights", out, wide, {matrix});

  // The magnitude over the norm: kept, with the norm, for its gradient.
  const int magnitude = uncast_parameter(linear.adapter->magnitude_index, out);
  const ValueId length =
      graph.tensor({owner, "magnitude over norm", "adapter.dora-scale"}, out, wide, true);
  Operator divide;
  divide.label = "divide";
  divide.inputs = {held.back()};
  divide.outputs = {length};
  divide.saved = {held.back()};
  divide.backward = {{BackwardStep::kParameterGradient, magnitude, -1}};
  graph.add(divide);

  const ValueId dropped = dropout(x, style.adapter->dropout, owner);
  const ValueId given = low_rank(dropped, linear, rows, in, out);
  const auto by_length = [&](ValueId y, ValueId by, const char* name) {
    const ValueId product =
        graph.tensor({owner, name, "adapter.dora-scale"}, rows * out, wide, true);
    const SlotId unreduced = graph.temporary(
        {owner, "gradient of the lengths, unreduced", "op.multiply.broadcast-backward"}, rows * out,
        wide);
    Operator operation;
    operation.label = "scale by length";
    operation.inputs = {y, by};
    operation.outputs = {product};
    operation.saved = {y};
    const bool needs = graph.needs_gradient(y);
    if (needs) operation.saved.push_back(by);
    operation.backward = {{BackwardStep::kTemporary, 0, unreduced}};
    // The gradient of y comes in the product's type; where that is not its own, it is cast behind the sum.
    const bool cast_back = needs && graph.type(y) != wide;
    BackwardStep of_y = kGradient0;
    if (cast_back)
      of_y = {BackwardStep::kTemporary, 0,
              graph.temporary({owner, "gradient of the output, before its cast", rule}, rows * out,
                              wide)};
    operation.backward.push_back(of_y);
    sum_rows(operation, owner, rows, out, "gradient of the lengths, partial sums");
    operation.backward.push_back(kGradient1);
    if (cast_back) {
      operation.backward.push_back({BackwardStep::kFreeTemporaries, 0, -1});
      operation.backward.push_back(of_y);
      operation.backward.push_back(kGradient0);
    }
    graph.add(operation);
    return product;
  };
  const ValueId less_one = scale(length, {owner, "length - 1", "adapter.dora-scale"});
  const ValueId of_base = by_length(base, less_one, "output by (length - 1)");
  const ValueId of_adapter = scale(by_length(given, length, "x A B by length"),
                                   {owner, "x A B by length, scaled", "adapter.dora-scale"});
  const ValueId both = add(of_base, of_adapter, {owner, "what DoRA adds", "adapter.dora-scale"});
  for (ValueId value : held) graph.hold(value);
  return add(base, both, {owner, "output with its adapter", "adapter.sum"});
}

template class Composer<Checked>;
template class Composer<Traced>;

}  // namespace steelyard
