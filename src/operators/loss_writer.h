// Final norm, head and cross entropy: the peak of many runs, because logits are as wide as the vocabulary.
//
//   x ─ norm ─ head ─┬─ torch's operators, or one fused kernel      operators/cross_entropy.cc
//                    ├─ cut over the tensor ranks                   operators/sharded_cross_entropy.cc
//                    ├─ LitGPT's chunks of logits                   operators/litgpt_loss.h
//                    ├─ torchtune's, whole and in chunks            operators/torchtune_loss.h
//   x ─ norm ────────┼─ head and loss in chunks, never whole        operators/loss_in_chunks.cc
//                    ├─ logarithms of the labels' probabilities     operators/log_probabilities.cc
//                    ├─ one score of a sequence, of whole logits what was chosen     operators/preference_loss.cc
//                    └─ in one kernel, without a logit in memory     operators/cut_cross_entropy.cc
//
// Each file says how many bytes a token of a vocabulary V it takes.
#pragma once

#include <optional>
#include <vector>

#include "operators/ends.h"

namespace steelyard {

template <class N>
class LossWriter {
 public:
  LossWriter(Composer<N>& composer, const Architecture& model)
      : c_(composer), graph_(composer.graph), model_(model) {}

  ValueId cross_entropy(ValueId logits, ValueId labels);
  ValueId write(ValueId x, ValueId labels, ValueId ids);

 private:
  // --- the head and what is common
  ValueId loss_of(ValueId x, ValueId labels, const N& width);
  ValueId torchtune(ValueId x, ValueId labels, ValueId hidden, const N& width);
  // `made`: by what has the gradient in the parameter's own type, and not by a product.
  int weight_gradient(const N& width, bool made = false);
  ValueId project(ValueId x, const N& width);
  int tied_gradient(const N& width, bool of_product = true);
  ValueId whole(ValueId logits);
  ValueId capped(ValueId logits);

  // --- operators/cross_entropy.cc
  ValueId transformers(ValueId logits, const N& elements, ValueId labels, ValueId hidden);
  ValueId widened(ValueId logits);
  ValueId moved(ValueId logits);
  ValueId labels_after_the_first(ValueId labels);
  ValueId shifted(ValueId labels);
  ValueId fused(ValueId logits, ValueId labels, ValueId hidden);
  ValueId written_over(ValueId logits, ValueId labels, ValueId hidden);
  ValueId loss_by_token();
  ValueId sum_of_tokens(ValueId by_token);
  void compare_with_one(Few<BackwardStep, 14>& steps);
  ValueId parallel_log_softmax(ValueId wide, const SlotName& name, const N& elements);
  void of_parallel_loss(Few<BackwardStep, 14>& steps, const N& elements);

  // --- operators/sharded_cross_entropy.cc
  void exchange_numbers(Operator& operation) const;
  ValueId megatron(ValueId logits);
  void nanotron(ValueId logits);

  // --- operators/loss_in_chunks.cc
  ValueId fused_linear(ValueId x, ValueId labels, const N& width);
  ValueId cut(ValueId x, ValueId labels, const N& width);  // operators/cut_cross_entropy.cc
  struct ChunkTypes {
    ElementType input, weight;
  };
  void chunk_by_chunk(Operator& operation, const N& width, const ChunkTypes& types, bool trains);
  void chunked(ValueId x, const N& width);
  Arithmetic in_pieces(std::int64_t rows, std::int64_t width) const;

  // --- operators/log_probabilities.cc
  ValueId probabilities_in_tiles(ValueId x, const N& width);
  ValueId probabilities_of_logits(ValueId x, ValueId labels, const N& width);
  ValueId picked_of(ValueId logits, bool wide);
  std::vector<ValueId> rows_of(ValueId logits, std::int64_t rows);
  ValueId picked_by_log_softmax(ValueId row);
  ValueId picked_by_log_sum(ValueId row);

  // --- operators/preference_loss.cc
  ValueId reward(ValueId x, const N& width);
  ValueId likelihood_of_chosen(ValueId logits, ValueId labels);
  ValueId both_losses(ValueId preference, ValueId likelihood);
  ValueId picked_by_kernel(ValueId logits);
  ValueId picked_written_over(ValueId logits);

  // --- operators/prediction_loss.cc
  ValueId of_all_depths(ValueId x, ValueId labels, ValueId ids, const N& width);
  std::vector<int> summed(std::size_t uses, bool leaves, const N& elements,
                          const ParameterTensor& weight, bool transposed = false);
  ValueId loss_of_depth(ValueId hidden, const N& width);
  ValueId beside(ValueId hidden, ValueId loss);

  Composer<N>& c_;
  Graph<N>& graph_;
  const Architecture& model_;
  ValueId padded_ = kNoValue;
  ValueId logits_of_depth_ = kNoValue, labels_of_depth_ = kNoValue, loss_of_depth_ = kNoValue;
  std::optional<int> shared_gradient_;  // of the head's weight, where it is used more than once
};

}  // namespace steelyard
