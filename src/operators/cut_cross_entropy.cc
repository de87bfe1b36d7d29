// Head and cross entropy in one kernel that never writes a logit: Apple's Cut Cross Entropy (arXiv 2411.09009), which Axolotl's
// plugin and scripts put in the place of transformers' own.
//
//   forward    x · weight block by block, in registers · +log-sum-exp of each token · +mean of each word's logits
//   kept       x, the log-sum-exp (4 bytes a token), the means (4 bytes a word), which tokens count (4 bytes a token)
//   backward   +order of the words · +gradient of x · +gradient of the weight, in 16 bits · the same in the weight's own type
//
// Source: apple/ml-cross-entropy cut_cross_entropy/cce.py, cce_lse_forward.py, cce_backward.py (25.1 to 25.3).
#include "operators/loss_writer.h"

namespace steelyard {

template <class N>
ValueId LossWriter<N>::cut(ValueId x, ValueId labels, const N& width) {
  const Sizes<N>& sizes = c_.sizes;
  const char* rule = "op.cut-cross-entropy";
  const ElementType narrow = c_.style.compute, wide = ElementType::kFloat32;
  const ParameterTensor& head =
      model_.head.weight_index < 0
          ? model_.embedding_parameters.front()
          : model_.head_parameters[static_cast<std::size_t>(model_.head.weight_index)];
  const ElementType of_weight = head.stored.value_or(c_.style.autocast ? wide : narrow);
  const N weight = sizes.vocabulary * width;
  const int gradient = weight_gradient(width, true);
  const ValueId input = c_.cast(x, narrow, {"loss", "input, cast", "autocast.input-cast"});
  const auto kept = [&](const char* name, const N& elements, ElementType type) {
    return graph_.tensor({"loss", name, rule}, elements, type, false);
  };
  const ValueId sums = kept("log-sum-exp by token", sizes.tokens, wide);
  const ValueId means = kept("mean logit by word", sizes.vocabulary, wide);
  const ValueId counted = kept("tokens that count", sizes.tokens, ElementType::kInt32);
  const ValueId by_token = loss_by_token();
  Operator operation;
  operation.label = "cut cross entropy";
  operation.inputs = {input, labels};
  operation.outputs = {sums, means, counted, by_token};
  operation.saved = {input, sums, means, counted, labels};
  operation.passing = {
      graph_.temporary({"loss", "tokens that count, 64 bits", rule}, sizes.tokens,
                       ElementType::kInt64),
      graph_.temporary({"loss", "logits of the targets", rule}, sizes.tokens, wide)};
  operation.backward = {{BackwardStep::kPassing, 0,
                         graph_.temporary({"loss", "order of the words, 64 bits", rule},
                                          sizes.vocabulary, ElementType::kInt64)},
                        {BackwardStep::kTemporary, 0,
                         graph_.temporary({"loss", "order of the words", rule}, sizes.vocabulary,
                                          ElementType::kInt32)}};
  if (graph_.needs_gradient(input)) operation.backward.push_back(kGradient0);
  if (gradient >= 0) {
    if (of_weight != narrow)
      operation.backward.push_back(
          {BackwardStep::kTemporary, 0,
           graph_.temporary({"loss", "weight gradient, 16 bits", rule}, weight, narrow)});
    operation.backward.push_back({BackwardStep::kParameterGradient, gradient, -1});
  }
  operation.arithmetic = {Arithmetic::kProduct, plain(sizes.tokens), plain(width),
                          plain(sizes.vocabulary)};
  graph_.add(operation);
  const ValueId loss = sum_of_tokens(by_token);
  graph_.hold(x);
  return loss;
}

template class LossWriter<Checked>;
template class LossWriter<Traced>;

}  // namespace steelyard
