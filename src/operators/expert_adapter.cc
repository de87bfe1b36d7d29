// Adapters of tensors that are no linear module: experts in one stack, routers.
//
//   experts   W [E, out, in] + B [E, out, r] A [E, r, in]      a whole stack more, made by one batched product and kept by the next
//   router    W [E, h] + (B A, scaled, in W's type)
//
// The weight itself is replaced while the module runs: torch's parametrize makes it once to look at it, and once more when it is
// read, and keeps that until the outermost adapter has run (peft/tuners/lora/layer.py, ParamWrapper, 0.21;
// torch/nn/utils/parametrize.py, register_parametrization and cached).
#include "operators/composer.h"

namespace steelyard {

namespace {
constexpr const char* kRule = "adapter.weight-with-adapter";
constexpr const char* kFactors = "adapter.expert-factors";
}  // namespace

// A or B in the weight's type: a cast, or the parameter itself. `by_column`: experts stand in the columns of B, and its gradient
// goes back through a copy.
template <class N>
ValueId Composer<N>::expert_factor(const char* owner, const char* name, int index,
                                   const N& elements, ElementType type, bool by_column) {
  const BackwardStep of_parameter{BackwardStep::kParameterGradient,
                                  uncast_parameter(index, elements), -1};
  Operator operation;
  operation.label = name;
  if (style.adapter_compute == type) {
    const SlotId slot = graph.temporary({owner, name, kFactors}, elements, type);
    const ValueId factor = graph.view(graph.input(slot, elements, type, false, false), elements);
    operation.outputs = {factor};
    operation.backward = {of_parameter};
    graph.add(operation);
    return factor;
  }
  const ValueId factor = graph.tensor({owner, name, kFactors}, elements, type, true);
  operation.outputs = {factor};
  if (by_column) {
    const SlotId by_expert = graph.temporary({owner, "gradient of B by experts", kFactors},
                                             elements, style.adapter_compute);
    operation.backward = {{BackwardStep::kTemporary, 0, by_expert},
                          {BackwardStep::kFreeOutputGradient, 0, -1}};
  }
  operation.backward.push_back(of_parameter);
  graph.add(operation);
  return factor;
}

template <class N>
typename Composer<N>::ExpertFactors Composer<N>::expert_factors(const char* owner,
                                                                const LowRank& adapter,
                                                                const N& experts, const N& in,
                                                                const N& out, ElementType type) {
  const N rank = Workbook<N>::symbol("r", adapter.rank);
  ExpertFactors factors;
  factors.owner = owner;
  factors.type = type;
  factors.whole = experts * in * out;
  factors.of_up = experts * rank * out;
  factors.up = expert_factor(owner, "B, cast", adapter.up_index, factors.of_up, type, true);
  factors.down =
      expert_factor(owner, "A, cast", adapter.down_index, experts * rank * in, type, false);
  factors.arithmetic = {Arithmetic::kProduct, plain(out), plain(rank), plain(in), plain(experts)};
  // Looked at when it is registered.
  Operator look;
  look.label = "look at the weight";
  look.inputs = {factors.up, factors.down};
  look.passing = {
      graph.temporary({owner, "weights with their adapter, looked at", kRule}, factors.whole, type),
      laid_out_factor(factors)};
  look.arithmetic = factors.arithmetic;
  graph.add(look);
  return factors;
}

// B's experts stand in its columns, which no batched product reads.
template <class N>
SlotId Composer<N>::laid_out_factor(const ExpertFactors& factors) {
  return graph.temporary({factors.owner, "B, laid out", kFactors}, factors.of_up, factors.type);
}

template <class N>
ValueId Composer<N>::with_expert_factors(const ExpertFactors& factors) {
  const ValueId weight = graph.tensor({factors.owner, "weights with their adapter", kRule},
                                      factors.whole, factors.type, true);
  const SlotId laid_out = laid_out_factor(factors);
  Operator fold;
  fold.label = "add the adapter to the weights";
  fold.inputs = {factors.up, factors.down};
  fold.outputs = {weight};
  fold.saved = {factors.up, factors.down};
  fold.passing = {laid_out};
  fold.backward = {kGradient0, {BackwardStep::kTemporary, 0, laid_out}, kGradient1};
  fold.arithmetic = factors.arithmetic;
  graph.add(fold);
  return weight;
}

// A matrix, whose difference is a tensor of its own.
template <class N>
ValueId Composer<N>::router_with_adapter(const Linear& router, const N& in, const N& out) {
  const char* owner = router.name.c_str();
  const LowRank& adapter = *router.adapter;
  const N rank = Workbook<N>::symbol("r", adapter.rank);
  const ElementType stored = stored_type(router.weight_index).value_or(style.compute);
  const ElementType type = style.autocast ? style.compute : style.adapter_compute;
  ValueId factors[2] = {kNoValue, kNoValue};
  if (style.autocast && style.adapter_compute != type) {
    factors[0] = made("cast", {}, {owner, "A, cast", "autocast.weight-cast"}, rank * in, type);
    factors[1] = made("cast", {}, {owner, "B, cast", "autocast.weight-cast"}, out * rank, type);
    for (const ValueId factor : factors) graph.linger(factor);
  }
  const ValueId product = graph.tensor({owner, "B A", kRule}, out * in, type, true);
  Operator multiply;
  multiply.label = "B A";
  multiply.outputs = {product};
  for (const ValueId factor : factors) {
    if (factor == kNoValue) continue;
    multiply.inputs.push_back(factor);
    multiply.saved.push_back(factor);
  }
  multiply.backward = {
      {BackwardStep::kParameterGradient, parameter(adapter.down_index, rank * in), -1},
      {BackwardStep::kParameterGradient, parameter(adapter.up_index, out * rank), -1}};
  graph.add(multiply);
  const ValueId difference =
      cast(scale(product, {owner, "B A, scaled", kRule}), stored, {owner, "B A, cast", kRule});
  const ValueId weight =
      graph.tensor({owner, "weight with its adapter", kRule}, out * in, stored, true);
  Operator sum;
  sum.label = "add the adapter to the weight";
  sum.inputs = {difference};
  sum.outputs = {weight};
  sum.passing = {
      graph.temporary({owner, "weight with its adapter, looked at", kRule}, out * in, stored)};
  sum.backward = {kAlias0};
  graph.add(sum);
  return weight;
}

template class Composer<Checked>;
template class Composer<Traced>;

}  // namespace steelyard
