// The router of a mixture of experts: logits, scores, the chosen experts and their weights.
//
//   x ─(fp32)─ logits ─(fp32)─ softmax or sigmoid, kept ─ top k: weights, indices kept ─ / sum, in place ─(cast, scaled)
//
// Each family of transformers has its own variant; training frameworks score in fp32 and cast the weights.
#include "operators/composer.h"

namespace steelyard {

namespace {
constexpr const char* kOwner = "mlp.router";
}  // namespace

template <class N>
class RouterWriter {
 public:
  RouterWriter(Composer<N>& composer, const ExpertMlp& mlp)
      : c_(composer),
        graph_(composer.graph),
        mlp_(mlp),
        transformers_(composer.style.implementation == Implementation::kTransformers),
        tokens_(composer.sizes.shard_tokens),
        experts_(Workbook<N>::symbol("E", mlp.experts)),
        chosen_(tokens_ * Workbook<N>::symbol("K", mlp.experts_per_token)) {}

  typename Composer<N>::Routed write(ValueId x) {
    const ValueId logits = score(x);
    const Routing& routing = mlp_.routing;
    ValueId weights = kNoValue, indices = kNoValue;
    if (transformers_ && routing.scores_of_chosen) {
      choose(logits, graph_.type(logits), weights, indices);
      weights = c_.pointwise("softmax", weights,
                             {kOwner, "softmax of the chosen", "op.softmax.saved-output"},
                             {.output = true});
      return {weights, indices, logits};
    }
    const ValueId wide =
        c_.cast(logits, ElementType::kFloat32, {kOwner, "fp32 logits", "op.softmax.fp32-input"});
    const ValueId probabilities = c_.pointwise(
        "scores", wide, {kOwner, "probabilities", "op.softmax.saved-output"}, {.output = true});
    choose(probabilities, transformers_ ? ElementType::kFloat32 : c_.style.compute, weights,
           indices);
    if (!transformers_) return {weights, indices, logits};
    if (routing.divided_by_sum) weights = divide_by_sum(weights);
    if (routing.scaled) weights = c_.scale(weights, {kOwner, "weights, scaled", "op.scale"});
    if (routing.in_type_of_logits)
      weights = c_.cast(weights, graph_.type(logits),
                        {kOwner, "weights, cast back", "op.softmax.cast-back"});
    graph_.hold(logits);  // the first of the router's results
    return {weights, indices, logits};
  }

 private:
  ValueId score(ValueId x) {
    if (mlp_.router.adapter) return score_with_adapter(x);
    if (transformers_ && !mlp_.router_in_float32)
      return c_.linear(x, mlp_.router, tokens_, c_.sizes.hidden, experts_);
    ValueId input = x;
    if (mlp_.router_in_float32)
      input = c_.cast(x, ElementType::kFloat32,
                      {kOwner, "fp32 copy of the hidden states", "op.router.fp32-input"});
    // Autocast takes what it finds in fp32 back to 16 bits.
    if (transformers_ && c_.style.autocast)
      return c_.linear(input, mlp_.router, tokens_, c_.sizes.hidden, experts_);
    const ElementType type = graph_.type(input);
    const N matrix = c_.sizes.hidden * experts_;
    const bool widened = transformers_ && bits_of(type) > bits_of(c_.style.compute);
    Operator route;
    route.label = "router";
    route.inputs = {input};
    if (widened) {
      const ValueId weight = graph_.tensor(
          {kOwner, "fp32 copy of the weight", "op.router.fp32-input"}, matrix, type, false);
      Operator widen;
      widen.label = "cast weight";
      widen.outputs = {weight};
      graph_.add(widen);
      route.inputs.push_back(weight);
      route.saved.push_back(weight);
    }
    const ValueId logits =
        graph_.tensor({kOwner, "logits", "op.linear.output"}, tokens_ * experts_, type, true);
    route.outputs = {logits};
    if (c_.has_gradient(mlp_.router.weight_index)) route.saved.push_back(input);
    route.backward = {{BackwardStep::kParameterGradient,
                       widened ? c_.widened_parameter(mlp_.router.weight_index, matrix)
                               : c_.parameter(mlp_.router.weight_index, matrix),
                       -1},
                      kGradient0};
    if (mlp_.router.bias_index >= 0)
      route.backward.push_back(
          {BackwardStep::kParameterGradient, c_.parameter(mlp_.router.bias_index, experts_), -1});
    graph_.add(route);
    return logits;
  }

  // The weight with its adapter is a tensor that asks for its gradient.
  ValueId score_with_adapter(ValueId x) {
    const ValueId weight = c_.router_with_adapter(mlp_.router, c_.sizes.hidden, experts_);
    ValueId input = x, factor = weight;
    const auto both_as = [&](ElementType type, const char* rule) {
      input = c_.cast(input, type, {kOwner, "hidden states, cast", rule});
      factor = c_.cast(factor, type, {kOwner, "weight, cast", rule});
    };
    if (mlp_.router_in_float32) both_as(ElementType::kFloat32, "op.router.fp32-input");
    if (c_.style.autocast) both_as(c_.style.compute, "autocast.input-cast");
    const ValueId logits = graph_.tensor({kOwner, "logits", "op.linear.output"}, tokens_ * experts_,
                                         graph_.type(input), true);
    Operator route;
    route.label = "router";
    route.inputs = {input, factor};
    route.outputs = {logits};
    route.saved = {input};
    if (graph_.needs_gradient(input)) route.saved.push_back(factor);
    route.backward = {kGradient1, kGradient0};
    graph_.add(route);
    graph_.hold(weight);
    return logits;
  }

  void choose(ValueId scores, ElementType type, ValueId& weights, ValueId& indices) {
    weights = graph_.tensor({kOwner, "chosen weights", "op.top-k.output"}, chosen_, type, true);
    indices = graph_.tensor({kOwner, "chosen experts", "op.top-k.saved-indices"}, chosen_,
                            ElementType::kInt64, false);
    Operator choose;
    choose.label = "top k";
    choose.inputs = {scores};
    choose.outputs = {weights, indices};
    choose.saved = {indices};
    choose.backward = {kGradient0};
    graph_.add(choose);
  }

  // In place: what stood there before is copied, for the gradient of the sum.
  ValueId divide_by_sum(ValueId weights) {
    const char* rule = "op.router.divided-weights";
    const ElementType type = graph_.type(weights);
    const ValueId sum = graph_.tensor({kOwner, "sum of the chosen", rule}, tokens_, type, true);
    Operator add_up;
    add_up.label = "sum";
    add_up.inputs = {weights};
    add_up.outputs = {sum};
    add_up.backward = {kAlias0};
    graph_.add(add_up);
    const ValueId before =
        graph_.tensor({kOwner, "chosen weights before their division", rule}, chosen_, type, false);
    const ValueId divided = graph_.view(weights, chosen_);
    Operator divide;
    divide.label = "divide in place";
    divide.inputs = {weights, sum};
    divide.outputs = {divided, before};
    divide.saved = {before, sum};
    divide.backward = {kGradient0, kGradient1};
    graph_.add(divide);
    return divided;
  }

  Composer<N>& c_;
  Graph<N>& graph_;
  const ExpertMlp& mlp_;
  bool transformers_;
  N tokens_, experts_, chosen_;
};

template <class N>
typename Composer<N>::Routed Composer<N>::route(ValueId x, const ExpertMlp& mlp) {
  return RouterWriter<N>(*this, mlp).write(x);
}

template Composer<Checked>::Routed Composer<Checked>::route(ValueId, const ExpertMlp&);
template Composer<Traced>::Routed Composer<Traced>::route(ValueId, const ExpertMlp&);

}  // namespace steelyard
