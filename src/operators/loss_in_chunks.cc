// Head and cross entropy together, in chunks of tokens: the logits are never whole. Gradients are made in forward.
#include "operators/loss_writer.h"

namespace steelyard {

namespace {

// Rows of one chunk of Liger's fused linear cross entropy: the next power of two of tokens / ceil(V / h).
std::int64_t liger_chunk(std::int64_t tokens, std::int64_t vocabulary, std::int64_t hidden) {
  const std::int64_t parts = (vocabulary + hidden - 1) / hidden;
  const std::int64_t wanted = (tokens + parts - 1) / parts;
  std::int64_t chunk = 1;
  while (chunk < wanted) chunk *= 2;
  return chunk < tokens ? chunk : tokens;
}

}  // namespace

// Liger: chunks of logits; the gradients of input and weight are made in forward and kept.
template <class N>
void LossWriter<N>::fused_linear(ValueId x, const N& width) {
  const Sizes<N>& sizes = c_.sizes;
  const N chunk(liger_chunk(plain(sizes.tokens), plain(sizes.vocabulary), plain(width)));
  const ValueId input_gradient = graph_.tensor(
      {"loss", "input gradient, made in forward", "op.fused-linear-loss.saved-gradients"},
      sizes.tokens * width, c_.style.compute, false);
  const int gradient = weight_gradient(width);
  const ValueId loss = graph_.tensor({"loss", "loss by token", "op.cross-entropy.loss"},
                                     sizes.tokens, ElementType::kFloat32, true);
  Operator operation;
  operation.label = "fused linear cross entropy";
  operation.arithmetic = {Arithmetic::kProduct, plain(sizes.tokens), plain(width),
                          plain(sizes.vocabulary)};
  operation.arithmetic.forward_times = 3;
  operation.inputs = {x};
  operation.outputs = {loss, input_gradient};
  operation.saved = {input_gradient};
  operation.passing = {
      graph_.temporary({"loss", "logits of one chunk", "op.fused-linear-loss.chunk"},
                       chunk * sizes.vocabulary, c_.style.compute)};
  if (gradient >= 0) {  // none for a frozen head
    const ValueId made = graph_.tensor(
        {"loss", "weight gradient, made in forward", "op.fused-linear-loss.saved-gradients"},
        sizes.vocabulary * width, c_.style.compute, false);
    operation.outputs.push_back(made);
    operation.saved.push_back(made);
    const SlotName of_chunk{"loss", "weight gradient of one chunk",
                            "op.fused-linear-loss.weight-gradient"};
    const SlotName wide{"loss", "weight gradient of one chunk, fp32",
                        "op.fused-linear-loss.weight-gradient"};
    operation.passing.push_back(
        graph_.temporary(of_chunk, sizes.vocabulary * width, c_.style.compute));
    operation.passing.push_back(
        graph_.temporary(wide, sizes.vocabulary * width, ElementType::kFloat32));
  }
  operation.backward = {kGradient0, {BackwardStep::kParameterGradient, gradient, -1}};
  graph_.add(operation);
}

// Cross entropy in eight pieces along the tokens, each with its own backward (torchtitan components/loss.py).
template <class N>
void LossWriter<N>::chunked(ValueId x, const N& width) {
  const Sizes<N>& sizes = c_.sizes;
  const N chunk = ceil_divide(sizes.tokens, N(c_.style.loss_chunks));
  const N piece = chunk * sizes.vocabulary;
  const ValueId gradient = graph_.tensor(
      {"loss", "gradient of the hidden states, fp32", "op.chunked-loss.gradient-buffer"},
      sizes.tokens * width, ElementType::kFloat32, false);
  const ValueId loss =
      graph_.tensor({"loss", "loss", "op.cross-entropy.loss"}, N(1), ElementType::kFloat32, true);
  Operator operation;
  operation.label = "chunked cross entropy";
  operation.arithmetic = {Arithmetic::kProduct, plain(sizes.tokens), plain(width),
                          plain(sizes.vocabulary)};
  operation.arithmetic.forward_times = 3;
  operation.inputs = {x};
  operation.outputs = {loss, gradient};
  operation.saved = {gradient};
  const char* rule = "op.chunked-loss.chunk";
  operation.passing = {
      graph_.temporary({"loss", "logits of one chunk", rule}, piece, c_.style.compute),
      graph_.temporary({"loss", "fp32 logits of one chunk", rule}, piece, ElementType::kFloat32),
      graph_.temporary({"loss", "log-softmax of one chunk", rule}, piece, ElementType::kFloat32),
      graph_.temporary({"loss", "fp32 gradient of one chunk", rule}, piece, ElementType::kFloat32)};
  operation.backward = {kGradient0, {BackwardStep::kParameterGradient, weight_gradient(width), -1}};
  graph_.add(operation);
}

template class LossWriter<Checked>;
template class LossWriter<Traced>;

}  // namespace steelyard
