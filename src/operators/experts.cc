// Mixture of experts: a router (operators/router.cc), the tokens sorted to their experts, grouped products, the weighted sum.
//
//   kept for each (token, expert) pair:  gathered input h · gate M · up M · act(gate) M · product M · output h
//   kept for each token:                 router probabilities, fp32, E
//
// Balanced routing: each rank's experts receive tokens x experts_per_token pairs in total.
#include "operators/composer.h"

namespace steelyard {

template <class N>
ValueId Composer<N>::mlp(ValueId x, const ExpertMlp& mlp) {
  const N tokens = sizes.shard_tokens;
  const int begin = position();
  if (style.implementation == Implementation::kMegatron) return dispatched_experts(x, mlp);
  const bool transformers = style.implementation == Implementation::kTransformers;
  if (transformers && mlp.every_expert_runs_every_token) {
    const ValueId sum = every_expert(x, mlp);
    if (recomputed.mlp) recompute_from(begin);
    return sum;
  }
  // Behind a gate of its own the shared expert comes first, and the gate last (transformers, *SparseMoeBlock of Qwen's).
  const bool shared_first = transformers && mlp.shared_gate.has_value();
  const ValueId shared = shared_first ? this->mlp(x, *mlp.shared) : kNoValue;
  const auto [weights, indices, logits] = route(x, mlp);
  ValueId sum = transformers ? grouped_experts(x, weights, indices, mlp)
                : style.implementation == Implementation::kTorchtitan
                    ? exchanged_experts(x, weights, indices, mlp)
                    : sorted_experts(x, weights, indices, mlp);
  // The block has names for what its router gave until it returns.
  if (transformers)
    for (const ValueId given : {weights, indices, logits}) graph.hold(given);
  if (shared_first)
    sum = add(sum, gated_shared_expert(x, shared, mlp, tokens), {"mlp", "output", "op.add"});
  else if (mlp.shared)
    sum = add(sum, shared_expert(x, mlp, tokens), {"mlp", "output", "op.add"});
  if (recomputed.mlp) recompute_from(begin);
  return sum;
}

template <class N>
ValueId Composer<N>::shared_expert(ValueId x, const ExpertMlp& mlp, const N& tokens) {
  const ValueId shared = this->mlp(x, *mlp.shared);
  return mlp.shared_gate ? gated_shared_expert(x, shared, mlp, tokens) : shared;
}

template <class N>
ValueId Composer<N>::gated_shared_expert(ValueId x, ValueId shared, const ExpertMlp& mlp,
                                         const N& tokens) {
  const N& hidden = sizes.hidden;
  const ValueId score = linear(x, *mlp.shared_gate, tokens, hidden, N(1));
  const ValueId gate =
      pointwise("sigmoid", score, {"mlp.shared_expert_gate", "sigmoid", "op.sigmoid.saved-output"},
                {.output = true});
  const ValueId gated = graph.tensor({"mlp.shared_expert", "gated output", "op.multiply.output"},
                                     tokens * hidden, style.compute, true);
  Operator multiply_rows;
  multiply_rows.label = "gate the shared expert";
  multiply_rows.inputs = {gate, shared};
  multiply_rows.outputs = {gated};
  multiply_rows.saved = {gate, shared};
  multiply_rows.backward = {kGradient1, kGradient0};
  graph.add(multiply_rows);
  return gated;
}

// nanotron: one product for each projection over the sorted tokens, nothing between them.
template <class N>
ValueId Composer<N>::sorted_experts(ValueId x, ValueId weights, ValueId indices,
                                    const ExpertMlp& mlp) {
  using Book = Workbook<N>;
  const N experts = Book::symbol("E", mlp.experts);
  const N hidden = sizes.hidden;
  const N tokens = sizes.shard_tokens;
  const N pairs = sizes.tokens * Book::symbol("K", mlp.experts_per_token);
  const N local_width = Book::symbol("M", mlp.width) / sizes.tensor;
  const ElementType type = style.compute;

  // Tokens in the order of their experts.
  const ValueId gathered = graph.tensor(
      {"mlp.experts", "gathered input", "op.experts.gathered-input"}, pairs * hidden, type, true);
  Operator gather;
  gather.label = "gather";
  gather.inputs = {x, indices};
  gather.outputs = {gathered};
  gather.saved = {indices};
  gather.backward = {kGradient0};
  graph.add(gather);

  auto grouped = [&](ValueId input, int weight_index, const char* name, const N& in, const N& out,
                     const N& all_weights) {
    const ValueId y =
        graph.tensor({"mlp.experts", name, "op.linear.output"}, pairs * out, type, true);
    Operator product;
    product.label = "grouped product";
    product.inputs = {input};
    product.outputs = {y};
    if (has_gradient(weight_index)) product.saved = {input};
    if (weight_index >= 0)
      product.backward.push_back(
          {BackwardStep::kParameterGradient, uncast_parameter(weight_index, all_weights), -1});
    product.backward.push_back(kGradient0);
    // Tokens spread evenly over the experts.
    product.arithmetic = {Arithmetic::kProduct, plain(ceil_divide(pairs, experts)), plain(in),
                          plain(out), plain(experts)};
    graph.add(product);
    return y;
  };
  ValueId inner;
  if (mlp.gate_up_index >= 0) {
    const ValueId both = grouped(gathered, mlp.gate_up_index, "gate and up", hidden,
                                 N(2) * local_width, experts * hidden * N(2) * local_width);
    const std::vector<ValueId> parts =
        split(both, {pairs * local_width, pairs * local_width}, "mlp.experts");
    const ValueId activated = activate(parts[0], mlp.activation, "mlp.experts");
    inner = multiply(activated, parts[1], {"mlp.experts", "act(gate)·up", "op.multiply.output"});
  } else {
    const ValueId gate = grouped(gathered, mlp.gate_index, "gate", hidden, local_width,
                                 experts * hidden * local_width);
    const ValueId activated = activate(gate, mlp.activation, "mlp.experts");
    const ValueId up =
        grouped(gathered, mlp.up_index, "up", hidden, local_width, experts * hidden * local_width);
    inner = multiply(activated, up, {"mlp.experts", "act(gate)·up", "op.multiply.output"});
  }
  const ValueId expert_output = grouped(inner, mlp.down_index, "expert output", local_width, hidden,
                                        experts * hidden * local_width);

  // The weight multiplies the expert's output, which its own gradient needs.
  const ValueId weighted = graph.tensor(
      {"mlp.experts", "weighted output", "op.experts.weighted-output"}, pairs * hidden, type, true);
  Operator weigh;
  weigh.label = "weigh";
  weigh.inputs = {expert_output, weights};
  weigh.outputs = {weighted};
  weigh.saved = {expert_output, weights};
  const SlotId unreduced = graph.temporary(
      {"mlp.experts", "gradient of the weights, unreduced", "op.multiply.broadcast-backward"},
      pairs * hidden, type);
  weigh.backward = {{BackwardStep::kTemporary, 0, unreduced}, kGradient1, kGradient0};
  graph.add(weigh);
  const ValueId sum = graph.tensor({"mlp.experts", "sum over experts", "op.experts.sum"},
                                   tokens * hidden, type, true);
  Operator add_up;
  add_up.label = "sum over experts";
  add_up.inputs = {weighted, indices};
  add_up.outputs = {sum};
  add_up.saved = {indices};
  add_up.backward = {kGradient0};
  graph.add(add_up);
  return sum;
}

template class Composer<Checked>;
template class Composer<Traced>;

}  // namespace steelyard
