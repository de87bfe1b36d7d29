// Head and cross entropy as torchtune's recipes run them:
//
//   TorchtuneLoss<N> loss(composer);
//   loss.whole(logits, labels, hidden)
//   loss.in_chunks(hidden, labels, width, parts, gradients)
#pragma once

#include <span>
#include <vector>

#include "operators/composer.h"

namespace steelyard {

template <class N>
class TorchtuneLoss {
 public:
  explicit TorchtuneLoss(Composer<N>& composer) : c_(composer), graph_(composer.graph) {}
  // `hidden`: what the last layer gave, which the model's forward has a name for.
  ValueId whole(ValueId logits, ValueId labels, ValueId hidden);
  // `gradients`: of the head's weight, one for each chunk in backward's order; -1: not trained.
  ValueId in_chunks(ValueId x, ValueId labels, ValueId hidden, const N& width,
                    const std::vector<int>& gradients);

 private:
  struct Part {
    N tokens{};
    ValueId value = kNoValue;  // of the input, then of the logits
  };
  void split_into(ValueId x, std::span<Part> parts, const N& width);
  ValueId with_last_ignored(ValueId labels);
  ValueId picked(ValueId logits, ValueId target);
  // The loss times the number of tokens that count: what backward starts from.
  ValueId times_tokens(ValueId loss);

  Composer<N>& c_;
  Graph<N>& graph_;
};

extern template class TorchtuneLoss<Checked>;
extern template class TorchtuneLoss<Traced>;

}  // namespace steelyard
