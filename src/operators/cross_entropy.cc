// Cross entropy as torch's own operators write it, and as one fused kernel.
//
//   transformers, bytes a token   logits 2V · fp32 copy 4V · log-softmax 4V kept   forward 10V, backward 12V
//   the same, loss_parallel       logits 2V · fp32 copy 4V · two of 4V, one kept      forward 14V, backward 16V, each / t
//   fused, one kernel             logits 2V kept · gradient 2V
//   fused, Liger's                logits 2V · fp32 copy 4V kept, in whose place the gradient is
#include "operators/loss_writer.h"

namespace steelyard {

namespace {
constexpr SlotName kLabelsShifted{"loss", "labels, shifted", "op.cross-entropy.shifted-labels"};
}  // namespace

template <class N>
ValueId Composer<N>::negative_log_likelihood(ValueId log_softmax, ValueId target, const char* name,
                                             ElementType type,
                                             const Few<BackwardStep, 14>& before) {
  // cross_entropy_loss asks for the logits' own type; what picks from it is on autocast's list of fp32 operators.
  if (style.autocast)
    log_softmax = cast(log_softmax, ElementType::kFloat32,
                       {"loss", "log-softmax, fp32", "autocast.fp32-operator"});
  const auto number = [&](const char* what, bool asks) {
    return graph.tensor({"loss", what, "op.cross-entropy.loss"}, N(1), type, asks);
  };
  const ValueId loss = number(name, true), weight = number("total weight", false);
  Operator pick;
  pick.label = "negative log likelihood";
  pick.inputs = {log_softmax, target};
  pick.outputs = {loss, weight};
  pick.saved = {log_softmax, target, weight};
  pick.backward = before;
  pick.backward.push_back(kGradient0);
  graph.add(pick);
  return loss;
}

template <class N>
ValueId LossWriter<N>::cross_entropy(ValueId logits, ValueId labels) {
  return transformers(logits, graph_.elements(logits), labels, logits);
}

// ForCausalLMLoss (transformers loss_utils.py): logits.float(), then torch's cross entropy.
template <class N>
ValueId LossWriter<N>::transformers(ValueId logits, const N& elements, ValueId labels,
                                    ValueId hidden) {
  logits = capped(logits);
  if (c_.style.loss == LossKernel::kFused && c_.style.liger)
    return written_over(logits, labels, hidden);
  if (c_.style.loss == LossKernel::kFused || c_.style.compiles_loss)
    return fused(logits, labels, hidden);
  // Where the training loop asks for the loss, the labels come as they are wanted.
  const bool scaling = c_.style.implementation == Implementation::kScaling;
  const bool outside = c_.style.schedule_asks_for_loss || scaling ||
                       c_.style.implementation == Implementation::kTorchtitan;
  // Sequences that ranks share are shifted before they are cut.
  const bool is_shifted =
      outside || (c_.style.context > 1 && c_.style.context_code == ContextCode::kTorch);
  const bool moves_logits = c_.style.shifted != Shifted::kLabels && !is_shifted && !model_.encoder;
  const bool narrow = moves_logits && c_.style.shifted == Shifted::kNarrowLogits;
  // Encoders hand the logits over as they are.
  ValueId wide = model_.encoder || narrow ? logits : widened(logits);
  const ValueId widened_logits = wide;
  ValueId target = labels;
  if (moves_logits) {
    wide = moved(wide);
    target = labels_after_the_first(labels);
  } else if (!is_shifted) {
    target = shifted(labels);
  }
  const ValueId moved_logits = wide;
  // cross_entropy is on autocast's list of fp32 operators.
  if (narrow && c_.style.autocast) wide = widened(wide);
  const N counted = moves_logits ? graph_.elements(wide) : elements;
  const SlotName kept{"loss", "log-softmax", "op.cross-entropy.saved-log-softmax"};
  const ValueId log_softmax =
      c_.style.distributed_tensors
          ? parallel_log_softmax(wide, kept, counted)
          : c_.single("log softmax", wide, kept, counted, graph_.type(wide), {.output = true});
  Few<BackwardStep, 14> before;
  if (c_.style.distributed_tensors) of_parallel_loss(before, elements);
  const ValueId loss =
      c_.negative_log_likelihood(log_softmax, target, "loss", ElementType::kFloat32, before);
  if (moves_logits) graph_.hold(moved_logits);
  if (!narrow) graph_.hold(widened_logits);
  if (c_.style.schedule_asks_for_loss || scaling)
    graph_.outlive(logits);
  else if (!moves_logits || c_.style.shifted != Shifted::kWideLogits)
    graph_.hold(
        logits);  // a local of the model's forward until it returns, or of the training loop
  if (!outside) graph_.hold(hidden);
  if (padded_ != kNoValue) graph_.hold(padded_);
  return loss;
}

template <class N>
ValueId LossWriter<N>::widened(ValueId logits) {
  return c_.cast(logits, ElementType::kFloat32,
                 {"loss", "fp32 logits", "op.cross-entropy.fp32-logits"});
}

// logits[..., :-1, :].contiguous(): a copy of several sequences, and of one what stands there. The gradient comes back
// as a tensor of the whole size.
template <class N>
ValueId LossWriter<N>::moved(ValueId logits) {
  const SlotName name{"loss", "logits but the last", "op.cross-entropy.shifted-logits"};
  const N elements = c_.sizes.batch * (c_.sizes.sequence - N(1)) * c_.sizes.vocabulary;
  return plain(c_.sizes.batch) == 1
             ? c_.viewed("slice", logits, elements)
             : c_.single("slice", logits, name, elements, graph_.type(logits), {});
}

template <class N>
ValueId LossWriter<N>::labels_after_the_first(ValueId labels) {
  const N tokens = c_.sizes.batch * (c_.sizes.sequence - N(1));
  if (plain(c_.sizes.batch) == 1) return graph_.view(labels, tokens);
  return c_.made("copy", {labels}, kLabelsShifted, tokens, ElementType::kInt64);
}

// A causal model's labels move by one: padded at the end, and the part after the first copied (loss_utils.py).
template <class N>
ValueId LossWriter<N>::shifted(ValueId labels) {
  if (model_.encoder) return labels;
  const SlotName padded{"loss", "labels, padded", "op.cross-entropy.shifted-labels"};
  padded_ = c_.made("pad", {labels}, padded, c_.sizes.batch * (c_.sizes.sequence + N(1)),
                    ElementType::kInt64);
  // Of one sequence, the part after the first is contiguous as it stands.
  if (plain(c_.sizes.batch) == 1) return graph_.view(padded_, c_.sizes.tokens);
  return c_.made("copy", {padded_}, kLabelsShifted, c_.sizes.tokens, ElementType::kInt64);
}

// One kernel from 16-bit logits to the loss: flash-attn's keeps them and makes their gradient (losses/cross_entropy.py).
// Compiled, cast and softmax are part of the kernels.
template <class N>
ValueId LossWriter<N>::fused(ValueId logits, ValueId labels, ValueId hidden) {
  const bool outside =
      c_.style.schedule_asks_for_loss || c_.style.implementation == Implementation::kScaling;
  const ValueId target = outside ? labels : shifted(labels);
  const SlotName by_token{"loss", "loss by token", "op.fused-cross-entropy.saved-logits"};
  const ValueId loss = graph_.tensor(by_token, c_.sizes.tokens, ElementType::kFloat32, true);
  const ValueId sums =
      graph_.tensor({"loss", "log-sum-exp by token", "op.fused-cross-entropy.saved-logits"},
                    c_.sizes.tokens, ElementType::kFloat32, false);
  Operator operation;
  operation.label = "fused cross entropy";
  operation.inputs = {logits, target};
  operation.outputs = {loss, sums};
  operation.saved = {logits, target, sums};
  operation.backward = {kGradient0};
  graph_.add(operation);
  if (outside)
    graph_.outlive(logits);
  else
    graph_.hold(hidden);
  if (padded_ != kNoValue) graph_.hold(padded_);
  return loss;
}

template <class N>
ValueId LossWriter<N>::loss_by_token() {
  return graph_.tensor({"loss", "loss by token", "op.cross-entropy.loss"}, c_.sizes.tokens,
                       ElementType::kFloat32, true);
}

// Liger's functions give the sum, and backward has what arrives of it.
template <class N>
ValueId LossWriter<N>::sum_of_tokens(ValueId by_token) {
  const ValueId loss =
      graph_.tensor({"loss", "loss", "op.cross-entropy.loss"}, N(1), ElementType::kFloat32, true);
  Operator sum;
  sum.label = "sum";
  sum.inputs = {by_token};
  sum.outputs = {loss};
  sum.backward = {kAlias0};
  graph_.add(sum);
  return loss;
}

// Liger's backward scales what forward has made unless what arrives is one: torch.equal() of two numbers.
template <class N>
void LossWriter<N>::compare_with_one(Few<BackwardStep, 14>& steps) {
  const auto number = [&](const char* name, ElementType type) {
    const SlotName of{"loss", name, "op.fused-linear-loss.saved-gradients"};
    steps.push_back({BackwardStep::kTemporary, 0, graph_.temporary(of, N(1), type)});
  };
  number("one", ElementType::kFloat32);
  number("is it one?", ElementType::kBool);
  number("are all?", ElementType::kBool);
  steps.push_back({BackwardStep::kFreeTemporaries, 0, -1});
}

// Liger's kernel stands in for torch's alone: logits.float() is its caller's, and it writes their gradient over that copy
// in forward (ops/cross_entropy.py, transformers/monkey_patch.py).
template <class N>
ValueId LossWriter<N>::written_over(ValueId logits, ValueId labels, ValueId hidden) {
  const ValueId wide = widened(logits);
  const bool outside = c_.style.schedule_asks_for_loss;
  const ValueId target = outside ? labels : shifted(labels);
  const char* rule = "op.cross-entropy.loss";
  Operator operation;
  operation.label = "fused cross entropy";
  const ValueId by_token = loss_by_token();
  operation.inputs = {wide, target};
  operation.outputs = {by_token};
  operation.saved = {wide};
  operation.passing = {
      graph_.temporary({"loss", "tokens that count", rule}, c_.sizes.tokens, ElementType::kBool),
      graph_.temporary({"loss", "tokens that count, to be summed", rule}, c_.sizes.tokens,
                       ElementType::kInt64),
      graph_.temporary({"loss", "their number", rule}, N(1), ElementType::kInt64)};
  compare_with_one(operation.backward);
  operation.backward.push_back({BackwardStep::kInPlaceGradient, 0, -1});
  graph_.add(operation);
  const ValueId loss = sum_of_tokens(by_token);
  if (outside) {
    graph_.outlive(logits);
  } else {
    graph_.hold(logits);
    graph_.hold(hidden);
  }
  if (padded_ != kNoValue) graph_.hold(padded_);
  return loss;
}

// loss_parallel (torch/distributed/tensor/parallel/loss.py), written in Python: logits less their maximum, their
// exponentials until these are summed, then the result; three numbers for each token. Backward passes through.
template <class N>
ValueId LossWriter<N>::parallel_log_softmax(ValueId wide, const SlotName& name, const N& elements) {
  const char* rule = "op.loss-parallel.log-softmax";
  const ElementType type = graph_.type(wide);
  const ValueId result = graph_.tensor(name, elements, type, true);
  const SlotId number =
      graph_.temporary({"loss", "numbers of each token", rule}, c_.sizes.tokens, type);
  Operator operation;
  operation.label = "parallel log softmax";
  operation.inputs = {wide};
  operation.outputs = {result};
  operation.saved = {result};
  operation.passing = {
      graph_.temporary({"loss", "logits less their maximum", rule}, graph_.elements(wide), type),
      number, number, number};
  operation.backward = {{BackwardStep::kAliasGradient, 0, -1}};
  exchange_numbers(operation);
  graph_.add(operation);
  return result;
}

// Both backwards in one, (zeros with the targets + exponentials) x what arrives: three tensors of all logits here.
template <class N>
void LossWriter<N>::of_parallel_loss(Few<BackwardStep, 14>& steps, const N& elements) {
  const char* rule = "op.loss-parallel.gradient";
  const auto temporary = [&](const char* name, const N& count, ElementType type) {
    steps.push_back(
        {BackwardStep::kTemporary, 0, graph_.temporary({"loss", name, rule}, count, type)});
  };
  const N& tokens = c_.sizes.tokens;
  temporary("targets", tokens, ElementType::kInt64);
  temporary("targets of this rank", tokens, ElementType::kInt64);
  temporary("rows", tokens, ElementType::kInt64);
  temporary("mask", tokens, ElementType::kBool);
  temporary("what the targets take", tokens, ElementType::kFloat32);
  temporary("what arrives", tokens, ElementType::kFloat32);
  temporary("zeros with the targets", elements, ElementType::kFloat32);
  temporary("their sum with the exponentials", elements, ElementType::kFloat32);
}

template class Composer<Checked>;
template class Composer<Traced>;
template class LossWriter<Checked>;
template class LossWriter<Traced>;

}  // namespace steelyard
