// Losses of preferences that are made of more than the labels' probabilities.
//
//   a reward    one score a token, of which each sequence's last counts: no logits       (transformers modeling_layers.py,
//               GenericForSequenceClassification; trl 1.16 trainer/reward_trainer.py)
//
//   ORPO, CPO and SimPO of whole logits, in bytes a token of a vocabulary V, of 16 bits (fp32 under autocast: twice)
//               logits 2V, kept by the kernel that picks probabilities
//               log-softmax of what was chosen: 2V for each second sequence, kept
//               backward: the gradient of all logits, twice where both losses have one    (trl 1.16 experimental/orpo, cpo)
#include "operators/loss_writer.h"

namespace steelyard {

namespace {
constexpr const char* kOfScore = "op.reward.score";
constexpr const char* kOfKernel = "op.log-probabilities.kernel";
constexpr const char* kOfChosen = "op.preference.likelihood";
}  // namespace

template <class N>
ValueId LossWriter<N>::reward(ValueId x, const N& width) {
  const ValueId scores = c_.column_linear(x, model_.head, width, N(1));
  graph_.hold(x);
  const ValueId loss = graph_.tensor({"loss", "last scores and their loss", kOfScore},
                                     c_.sizes.batch, graph_.type(scores), true);
  Operator pick;
  pick.label = "last score";
  pick.inputs = {scores};
  pick.outputs = {loss};
  pick.backward = {kGradient0};
  graph_.add(pick);
  return loss;
}

// One kernel from logits to the labels' probabilities: it keeps the logits, and makes their gradient as a new tensor
// (trl 1.16 kernels/logprob_entropy.py).
template <class N>
ValueId LossWriter<N>::picked_by_kernel(ValueId logits) {
  const N tokens = graph_.elements(logits) / c_.sizes.vocabulary;
  const ValueId picked = graph_.tensor({"loss", "logarithms of probabilities", kOfKernel}, tokens,
                                       ElementType::kFloat32, graph_.needs_gradient(logits));
  const ValueId sums = graph_.tensor({"loss", "log-sum-exp, entropy and mean logit", kOfKernel},
                                     tokens * N(3), ElementType::kFloat32, false);
  Operator kernel;
  kernel.label = "log probabilities";
  kernel.inputs = {logits};
  kernel.outputs = {picked, sums};
  kernel.saved = {logits, sums};
  kernel.backward = {kGradient0};
  graph_.add(kernel);
  return picked;
}

// flash-attention's cross entropy of all tokens, which writes the logits' gradient over them (verl workers/actor/dp_actor.py,
// inplace_backward; the temperature divides them where they stand).
template <class N>
ValueId LossWriter<N>::picked_written_over(ValueId logits) {
  constexpr const char* kRule = "op.log-probabilities.written-over";
  const ValueId picked = graph_.tensor({"loss", "logarithms of probabilities", kRule},
                                       c_.sizes.tokens, ElementType::kFloat32, true);
  const ValueId sums = graph_.tensor({"loss", "log-sum-exp of each token", kRule}, c_.sizes.tokens,
                                     ElementType::kFloat32, false);
  Operator kernel;
  kernel.label = "log probabilities";
  kernel.inputs = {logits};
  kernel.outputs = {picked, sums};
  kernel.saved = {logits, sums};
  kernel.backward = {{BackwardStep::kInPlaceGradient, 0, -1}};
  graph_.add(kernel);
  graph_.hold(logits);
  return picked;
}

// nn.CrossEntropyLoss of what was chosen, of all its tokens (concatenated_forward of both trainers).
template <class N>
ValueId LossWriter<N>::likelihood_of_chosen(ValueId logits, ValueId labels) {
  const Sizes<N>& sizes = c_.sizes;
  const N chosen = sizes.batch / N(2);
  const ValueId half = c_.viewed("slice", logits, chosen * sizes.sequence * sizes.vocabulary);
  const N elements = chosen * (sizes.sequence - N(1)) * sizes.vocabulary;
  ValueId moved = c_.viewed("slice", half, elements);
  // Of one sequence, all but its last token are contiguous as they stand.
  if (plain(sizes.batch) > 2)
    moved = c_.laid_out(moved, {"loss", "logits of what was chosen", kOfChosen});
  const ElementType type = graph_.type(logits);
  const ValueId logarithms =
      c_.single("log softmax", moved, {"loss", "log-softmax of what was chosen", kOfChosen},
                elements, type, {.output = true});
  const ValueId loss = c_.negative_log_likelihood(logarithms, labels, "likelihood", type);
  if (plain(sizes.batch) > 2) graph_.hold(moved);
  return loss;
}

template <class N>
ValueId LossWriter<N>::both_losses(ValueId preference, ValueId likelihood) {
  const ValueId loss =
      graph_.tensor({"loss", "sum of both losses", kOfChosen}, N(1), ElementType::kFloat32, true);
  Operator sum;
  sum.label = "add";
  sum.inputs = {preference, likelihood};
  sum.outputs = {loss};
  sum.backward = {kGradient0, kGradient1};
  graph_.add(sum);
  return loss;
}

#define INSTANTIATE(N)                                                    \
  template ValueId LossWriter<N>::reward(ValueId, const N&);              \
  template ValueId LossWriter<N>::picked_by_kernel(ValueId);              \
  template ValueId LossWriter<N>::picked_written_over(ValueId);           \
  template ValueId LossWriter<N>::likelihood_of_chosen(ValueId, ValueId); \
  template ValueId LossWriter<N>::both_losses(ValueId, ValueId);
INSTANTIATE(Checked)
INSTANTIATE(Traced)
#undef INSTANTIATE

}  // namespace steelyard
