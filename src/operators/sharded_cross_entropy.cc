// Cross entropy of logits that are cut over the tensor ranks, as two frameworks write it.
//
//   megatron, bytes a token   logits 2V · fp32 exponentials 4V kept, gradient in place, cast 2V
//   nanotron                  logits 2V · fp32 4V · shifted 4V, normalised in place and kept; gradient in place, cast 2V
#include "operators/loss_writer.h"

namespace steelyard {

// The largest logit of each token, the sum of exponentials and the target's logit, over the tensor ranks.
template <class N>
void LossWriter<N>::exchange_numbers(Operator& operation) const {
  if (c_.style.tensor == 1) return;
  const Exchange numbers{ExchangeKind::kAllReduce, Axis::kTensor,
                         Composer<N>::payload_of(c_.sizes.tokens, ElementType::kFloat32)};
  operation.forward_exchanges = {numbers, numbers, numbers};
}

// megatron/core/tensor_parallel/cross_entropy.py: exponentials in place of the fp32 copy, kept; gradient in place.
template <class N>
Operator Composer<N>::vocabulary_parallel_cross_entropy(const char* owner, ValueId logits,
                                                        ValueId result) {
  constexpr const char* kTargets = "op.megatron-cross-entropy.targets";
  const auto of_tokens = [&](const char* name, ElementType type) {
    return graph.tensor({owner, name, kTargets}, sizes.tokens, type, false);
  };
  const auto passing = [&](const char* name, ElementType type) {
    return graph.temporary({owner, name, kTargets}, sizes.tokens, type);
  };
  const ValueId exponentials =
      graph.tensor({owner, "fp32 exponentials", "op.megatron-cross-entropy.saved-exponentials"},
                   graph.elements(logits), ElementType::kFloat32, false);
  const ValueId mask = of_tokens("targets of other ranks", ElementType::kBool);
  const ValueId target = of_tokens("targets, counted from this rank's first", ElementType::kInt64);
  Operator operation;
  operation.label = "vocabulary-parallel cross entropy";
  operation.inputs = {logits};
  operation.outputs = {result, exponentials, mask, target};
  operation.saved = {exponentials, mask, target};
  operation.passing = {passing("largest logits", ElementType::kFloat32),
                       passing("rows", ElementType::kInt64),
                       passing("logits of the targets", ElementType::kFloat32)};
  operation.backward = {kGradient0};  // the cast of the in-place gradient
  return operation;
}

template <class N>
ValueId LossWriter<N>::megatron(ValueId logits) {
  const ValueId loss = graph_.tensor({"loss", "loss by token", "op.cross-entropy.loss"},
                                     c_.sizes.tokens, ElementType::kFloat32, true);
  Operator operation = c_.vocabulary_parallel_cross_entropy("loss", logits, loss);
  exchange_numbers(operation);
  graph_.add(operation);
  return loss;
}

// nanotron parallel/tensor_parallel/functional.py, _ShardedCrossEntropy: fp32 logits stay with the caller while the
// shifted copy becomes probabilities in place.
template <class N>
void LossWriter<N>::nanotron(ValueId logits) {
  const N elements = graph_.elements(logits);
  const ValueId wide = graph_.tensor({"loss", "fp32 logits", "op.cross-entropy.fp32-logits"},
                                     elements, ElementType::kFloat32, true);
  const ValueId probabilities =
      graph_.tensor({"loss", "probabilities", "op.nanotron-cross-entropy.saved-probabilities"},
                    elements, ElementType::kFloat32, false);
  const ValueId target =
      graph_.tensor({"loss", "target index", "op.nanotron-cross-entropy.saved-probabilities"},
                    c_.sizes.tokens, ElementType::kInt64, false);
  const ValueId loss = graph_.tensor({"loss", "loss by token", "op.cross-entropy.loss"},
                                     c_.sizes.tokens, ElementType::kFloat32, true);
  Operator widen;
  widen.label = "cast";
  widen.inputs = {logits};
  widen.outputs = {wide};
  widen.saved = {
      probabilities};  // the gradient is built in them and lives until it has been cast back
  widen.backward = {kGradient0};
  graph_.add(widen);
  Operator operation;
  operation.label = "sharded cross entropy";
  operation.inputs = {wide};
  operation.outputs = {probabilities, target, loss};
  operation.saved = {target};
  exchange_numbers(operation);
  graph_.add(operation);
}

template class Composer<Checked>;
template class Composer<Traced>;
template class LossWriter<Checked>;
template class LossWriter<Traced>;

}  // namespace steelyard
