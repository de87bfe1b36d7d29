// torchtune's head and losses (torchtune/modules/transformer.py, TransformerDecoder.unembed; modules/loss/ce_chunked_output_loss.py;
// recipes/full_finetune_single_device.py, _loss_step; 0.4 to 0.6), in bytes a token of a vocabulary V.
//
//   whole      logits 2V · fp32 copy 4V · log-softmax 4V kept   forward 8V, backward 12V; compiled: the fp32 copy is kept, 8V
//   in chunks  logits of all chunks 2V · log-softmax of all 4V kept, the fp32 copy of one; backward gives all 2V before the
//              first product; compiled: the logits are kept, and one chunk's gradient is made at a time
#include "operators/torchtune_loss.h"

#include <algorithm>

namespace steelyard {

// hstack((labels[..., 1:], a column of ignored)): the old ones go.
template <class N>
ValueId TorchtuneLoss<N>::with_last_ignored(ValueId labels) {
  const ValueId y = graph_.tensor({"loss", "labels, shifted", "torchtune.shifted-labels"},
                                  c_.sizes.tokens, ElementType::kInt64, false);
  Operator join;
  join.label = "hstack";
  join.inputs = {labels};
  join.outputs = {y};
  graph_.add(join);
  return y;
}

template <class N>
ValueId TorchtuneLoss<N>::times_tokens(ValueId loss) {
  return c_.scale(loss, {"loss", "loss times tokens", "torchtune.loss-times-tokens"});
}

// torch's cross entropy of fp32 logits; compiled, one kernel that keeps what it is given.
template <class N>
ValueId TorchtuneLoss<N>::picked(ValueId logits, ValueId target) {
  const N rows = graph_.elements(logits) / c_.sizes.vocabulary;
  if (c_.style.compiled) {
    const ValueId loss =
        graph_.tensor({"loss", "loss", "op.cross-entropy.loss"}, N(1), ElementType::kFloat32, true);
    const ValueId sums =
        graph_.tensor({"loss", "log-sum-exp by token", "op.fused-cross-entropy.saved-logits"}, rows,
                      ElementType::kFloat32, false);
    Operator fused;
    fused.label = "compiled cross entropy";
    fused.inputs = {logits, target};
    fused.outputs = {loss, sums};
    fused.saved = {logits, target, sums};
    fused.backward = {kGradient0};
    graph_.add(fused);
    return loss;
  }
  const ValueId log_softmax =
      c_.pointwise("log softmax", logits,
                   {"loss", "log-softmax", "op.cross-entropy.saved-log-softmax"}, {.output = true});
  return c_.negative_log_likelihood(log_softmax, target, "loss", ElementType::kFloat32);
}

template <class N>
ValueId TorchtuneLoss<N>::whole(ValueId logits, ValueId labels, ValueId hidden) {
  const ValueId wide =
      c_.cast(logits, ElementType::kFloat32, {"loss", "fp32 logits", "torchtune.fp32-logits"});
  graph_.hold(hidden);
  const ValueId target = with_last_ignored(labels);
  const ValueId loss = picked(wide, target);
  graph_.hold(wide);
  return times_tokens(loss);
}

// Views of x; their gradients are joined in a new tensor when the last of them is there.
template <class N>
void TorchtuneLoss<N>::split_into(ValueId x, std::span<Part> parts, const N& width) {
  constexpr std::size_t kMost = 8;  // outputs of an operator; more are cut twice
  Operator cut;
  cut.label = "chunk";
  cut.inputs = {x};
  cut.backward = {kGradient0};
  const std::size_t each = (parts.size() + kMost - 1) / kMost;
  for (std::size_t begin = 0; begin < parts.size(); begin += each) {
    const std::span<Part> inner = parts.subspan(begin, std::min(each, parts.size() - begin));
    N tokens = inner.front().tokens;
    for (std::size_t at = 1; at < inner.size(); ++at) tokens = tokens + inner[at].tokens;
    inner.front().value = graph_.view(x, tokens * width);
    cut.outputs.push_back(inner.front().value);
  }
  graph_.add(cut);
  for (std::size_t begin = 0; each > 1 && begin < parts.size(); begin += each) {
    const std::span<Part> inner = parts.subspan(begin, std::min(each, parts.size() - begin));
    if (inner.size() > 1) split_into(inner.front().value, inner, width);
  }
}

// output(chunk) for each chunk of tokens of every sequence: with several sequences a product copies its chunk. All logits are
// there before the first is widened.
template <class N>
ValueId TorchtuneLoss<N>::in_chunks(ValueId x, ValueId labels, ValueId hidden, const N& width,
                                    const std::vector<int>& gradients) {
  const Sizes<N>& sizes = c_.sizes;
  const auto count = static_cast<std::int64_t>(gradients.size());
  const std::int64_t length = (plain(sizes.sequence) + count - 1) / count;
  const char* rule = "torchtune.chunks";
  std::vector<Part> parts;
  std::vector<N> sizes_of_parts;
  for (std::int64_t begin = 0; begin < plain(sizes.sequence); begin += length)
    sizes_of_parts.push_back(sizes.batch * N(std::min(length, plain(sizes.sequence) - begin)));
  for (const N& tokens : sizes_of_parts) parts.push_back({tokens, kNoValue});
  split_into(x, parts, width);
  for (std::size_t at = 0; at < parts.size(); ++at) {
    Part& part = parts[at];
    ValueId input = part.value;
    if (plain(sizes.batch) > 1) {
      input = graph_.tensor({"head", "chunk of its input", rule}, part.tokens * width,
                            c_.style.compute, graph_.needs_gradient(x));
      Operator copies;
      copies.label = "reshape";
      copies.inputs = {part.value};
      copies.outputs = {input};
      copies.backward = {kAlias0};
      graph_.add(copies);
    }
    typename Composer<N>::Factor factor;
    factor.weight_gradient = gradients[gradients.size() - 1 - at];
    factor.type = c_.style.compute;
    part.value = c_.product(input, {"head", "logits", "op.linear.output"}, part.tokens, width,
                            sizes.vocabulary, factor);
  }
  graph_.hold(x);
  graph_.hold(hidden);
  const ValueId shifted = with_last_ignored(labels);
  const ValueId counted =
      c_.made("sum", {shifted}, {"loss", "tokens that count", rule}, N(1), ElementType::kInt64);
  ValueId total = kNoValue;
  std::vector<ValueId> targets;
  for (const Part& part : parts)
    targets.push_back(c_.made("copy", {shifted}, {"loss", "labels of one chunk", rule}, part.tokens,
                              ElementType::kInt64));
  for (std::size_t at = 0; at < parts.size(); ++at) {
    ValueId logits = parts[at].value;
    if (!c_.style.compiled)
      logits = c_.cast(logits, ElementType::kFloat32, {"loss", "fp32 logits of one chunk", rule});
    const ValueId loss = picked(logits, targets[at]);
    graph_.hold(logits);
    total = at == 0 ? loss : c_.add(total, loss, {"loss", "loss", "op.cross-entropy.loss"});
  }
  const ValueId mean = graph_.tensor({"loss", "loss by token", "op.cross-entropy.loss"}, N(1),
                                     ElementType::kFloat32, true);
  Operator divide;
  divide.label = "divide";
  divide.inputs = {total, counted};
  divide.outputs = {mean};
  divide.saved = {counted};
  divide.backward = {kGradient0};
  graph_.add(divide);
  for (const Part& part : parts) graph_.hold(part.value);
  graph_.hold(shifted);
  return times_tokens(mean);
}

template class TorchtuneLoss<Checked>;
template class TorchtuneLoss<Traced>;

}  // namespace steelyard
