// Head and cross entropy as LitGPT runs them:
//
//   LitgptLoss<N> loss(composer);
//   loss.of(head(loss.begin(x)), labels)
#pragma once

#include "operators/composer.h"

namespace steelyard {

template <class N>
class LitgptLoss {
 public:
  explicit LitgptLoss(Composer<N>& composer);
  // `x`: what the head reads.
  ValueId begin(ValueId x);
  ValueId of(ValueId logits, ValueId labels);

 private:
  // The head too runs chunk by chunk: with adapters alone (litgpt/finetune/lora.py, lm_head_chunk_size).
  bool by_chunks() const { return c_.style.adapter != nullptr; }

  Composer<N>& c_;
  Graph<N>& graph_;
  N elements_{};
  ValueId wide_ = kNoValue, log_softmax_ = kNoValue;
};

extern template class LitgptLoss<Checked>;
extern template class LitgptLoss<Traced>;

}  // namespace steelyard
