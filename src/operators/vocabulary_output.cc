// The output layer and the loss where every stage of a pipeline has a part of the vocabulary's rows: sail-sg/VocabularyParallelism,
// megatron/core/tensor_parallel/vocab_output.py. Bytes a token, of V rows on this rank:
//
//   forward    logits 2V · fp32 exponentials 4V kept with the input · numbers that all ranks exchange behind it
//   backward   the exponentials become the gradient in place · cast 2V · the input's gradient and the weight's from it
//
// One function is both product and loss, so that its exponentials stay until the weight's gradient is there.
#include "operators/ends.h"

namespace steelyard {

template <class N>
ValueId compose_final_norm(Composer<N>& composer, const Architecture& model, ValueId x) {
  return composer.normalise(x, *model.final_norm, composer.sizes.shard_tokens,
                            composer.sizes.hidden);
}

template <class N>
void compose_vocabulary_output(Composer<N>& c, const Architecture& model, ValueId x,
                               bool gradient_in_forward, bool waits) {
  Graph<N>& graph = c.graph;
  const Sizes<N>& sizes = c.sizes;
  const N rows = sizes.vocabulary / sizes.tensor;
  const N hidden = sizes.tokens * sizes.hidden;
  constexpr const char* kOwner = "output layer";
  const auto temporary = [&](const char* name, const char* rule, const N& elements) {
    return graph.temporary({kOwner, name, rule}, elements, c.style.compute);
  };
  const auto exchange = [&](ExchangeKind kind, const N& elements, ElementType type) {
    return Exchange{kind, Axis::kPipeline, Composer<N>::payload_of(elements, type)};
  };
  const ValueId logits = graph.tensor({kOwner, "logits", "op.linear.output"}, sizes.tokens * rows,
                                      c.style.compute, true);
  const ValueId stand_in =
      graph.tensor({kOwner, "stand-in for the loss", "op.megatron-cross-entropy.targets"},
                   sizes.tokens, c.style.compute, true);
  Operator loss = c.vocabulary_parallel_cross_entropy(kOwner, logits, stand_in);
  const ValueId exponentials = loss.saved[0];
  Operator product;
  product.label = kOwner;
  product.inputs = {x};
  product.outputs = {logits};
  product.saved = {x};
  for (const ValueId kept : loss.saved) product.saved.push_back(kept);
  product.arithmetic = {Arithmetic::kProduct, plain(sizes.tokens), plain(sizes.hidden),
                        plain(rows)};
  // What comes from the last stage, and the sum of what goes back to it.
  if (waits) {
    product.forward_exchanges = {exchange(ExchangeKind::kAllGather, hidden, c.style.compute)};
    product.backward_exchanges = {exchange(ExchangeKind::kAllReduce, hidden, c.style.compute)};
  }
  product.backward.push_back(
      gradient_in_forward
          ? BackwardStep{BackwardStep::kTemporary, 0,
                         temporary("zeros for the input's gradient", "vocabulary.output", hidden)}
          : kGradient0);
  product.backward.push_back({BackwardStep::kTemporary, 0,
                              temporary("stand-in for the weight's gradient", "vocabulary.stand-in",
                                        rows * sizes.hidden)});
  product.backward.push_back({BackwardStep::kParameterGradient,
                              c.parameter(model.head.weight_index, rows * sizes.hidden), -1});
  graph.add(product);

  if (waits) {
    const Exchange numbers =
        exchange(ExchangeKind::kAllReduce, sizes.tokens, ElementType::kFloat32);
    loss.forward_exchanges = {numbers, numbers, numbers};
  }
  graph.add(loss);
  if (!gradient_in_forward) return;

  // Before the sums of all ranks are known: the softmax of this rank's rows times the weight, and the targets' rows of it.
  const auto part = [&](const char* name) {
    const ValueId value = graph.tensor({kOwner, name, "vocabulary.gradient-in-forward"}, hidden,
                                       c.style.compute, false);
    graph.linger(value);
    return value;
  };
  Operator gradient;
  gradient.label = "gradient of the output layer's input";
  gradient.inputs = {exponentials};
  gradient.outputs = {part("softmax times the weight"), part("the targets' rows")};
  gradient.passing = {
      temporary("softmax, cast", "vocabulary.gradient-in-forward", sizes.tokens * rows)};
  gradient.arithmetic = {Arithmetic::kProduct, plain(sizes.tokens), plain(rows),
                         plain(sizes.hidden)};
  graph.add(gradient);
}

#define STEELYARD_VOCABULARY_OUTPUT(N)                                             \
  template ValueId compose_final_norm(Composer<N>&, const Architecture&, ValueId); \
  template void compose_vocabulary_output(Composer<N>&, const Architecture&, ValueId, bool, bool);
STEELYARD_VOCABULARY_OUTPUT(Checked)
STEELYARD_VOCABULARY_OUTPUT(Traced)
#undef STEELYARD_VOCABULARY_OUTPUT

}  // namespace steelyard
