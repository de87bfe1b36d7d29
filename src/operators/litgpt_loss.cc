// LitGPT's head and loss (litgpt/lora.py, GPT.forward; litgpt/utils.py, chunked_cross_entropy). Lightning Fabric widens what a
// module gives, so the logits reach the loss in fp32, and the loop keeps a name for them.
//
//   adapters         128 tokens of each sequence at a time, head and loss: 4V logits + 4V log-softmax kept, and in backward
//                    the gradients of one chunk
//   full fine-tunes  the head at once, the loss in chunks of 128 tokens: their gradients are joined, then put back where the last
//                    token's logits were cut off: 4V logits + 4V of the pieces + 4V + 4V
#include "operators/litgpt_loss.h"

#include <algorithm>

namespace steelyard {

namespace {
constexpr std::int64_t kChunk = 128;  // tokens of a sequence
}  // namespace

template <class N>
LitgptLoss<N>::LitgptLoss(Composer<N>& composer) : c_(composer), graph_(composer.graph) {
  const Sizes<N>& sizes = c_.sizes;
  const SlotName of_logits{"loss", "fp32 logits", "litgpt.fp32-logits"};
  const SlotName kept{"loss", "log-softmax", "op.cross-entropy.saved-log-softmax"};
  elements_ = sizes.tokens * sizes.vocabulary;
  wide_ = graph_.tensor(of_logits, elements_, ElementType::kFloat32, true);
  log_softmax_ = graph_.tensor(kept, elements_, ElementType::kFloat32, true);
}

// What is kept until the first chunk has run through the head: the logits by their name, and what the other chunks keep.
template <class N>
ValueId LitgptLoss<N>::begin(ValueId x) {
  const ValueId y = graph_.view(x, graph_.elements(x));
  Operator begin;
  begin.label = "chunks";
  begin.inputs = {x};
  begin.outputs = {y};
  begin.saved = {wide_};
  if (by_chunks()) begin.saved.push_back(log_softmax_);
  begin.backward = {kAlias0};
  graph_.add(begin);
  return y;
}

template <class N>
ValueId LitgptLoss<N>::of(ValueId logits, ValueId labels) {
  const Sizes<N>& sizes = c_.sizes;
  Operator widen;
  widen.label = "cast";
  widen.inputs = {logits};
  widen.outputs = {wide_};
  if (!by_chunks()) widen.saved = {log_softmax_};  // its pieces' gradients take its place
  widen.backward = {kGradient0};
  graph_.add(widen);
  const ValueId loss =
      graph_.tensor({"loss", "loss", "op.cross-entropy.loss"}, N(1), ElementType::kFloat32, true);
  Operator entropy;
  entropy.label = "chunked cross entropy";
  entropy.outputs = {loss, log_softmax_};
  entropy.saved = {labels};
  if (by_chunks()) {
    const N tokens = sizes.batch * N(std::min(kChunk, plain(sizes.sequence)));
    const char* rule = "litgpt.chunk-of-loss";
    const auto of_chunk = [&](const char* name, ElementType type) {
      return graph_.temporary({"loss", name, rule}, tokens * sizes.vocabulary, type);
    };
    graph_.gradient_slot(logits, of_chunk("gradient of one chunk's logits", graph_.type(logits)));
    graph_.gradient_slot(wide_,
                         of_chunk("gradient of one chunk's fp32 logits", ElementType::kFloat32));
    entropy.inputs = {wide_, labels};
    entropy.backward = {{BackwardStep::kTemporary, 0,
                         of_chunk("gradient of one chunk's log-softmax", ElementType::kFloat32)},
                        kGradient0};
  } else {
    const ValueId but_last =
        graph_.tensor({"loss", "logits but the last", "litgpt.logits-but-last"}, elements_,
                      ElementType::kFloat32, true);
    Operator cut;
    cut.label = "slice";
    cut.inputs = {wide_};
    cut.outputs = {but_last};
    cut.backward = {kGradient0};
    graph_.add(cut);
    entropy.inputs = {but_last, labels};
    entropy.backward = {kGradient0};
  }
  graph_.add(entropy);
  return loss;
}

template class LitgptLoss<Checked>;
template class LitgptLoss<Traced>;

}  // namespace steelyard
