// Logarithms of the labels' probabilities: TRL's losses of preferences, without a mean of their own.
//
// Tile by tile (trl/kernels/chunked_logprob.py and trainer/utils.py, add_fused_lm_head; since 1.15). Tokens that count are picked
// out of the hidden states first; logits are never whole, nor is their gradient:
//
//   forward     picked states N·h kept · one tile of 4,096 tokens x 32,768 words, however few words there are
//   backward    sums of both gradients in fp32 · one tile · then both in the types that are asked for
//
// Under autocast every tile casts its part of the weight and of the states; in backward a name holds the part before.
//
// Of whole logits, sequence by sequence (trainer/utils.py, selective_log_softmax; before 1.15), in bytes a token of a vocabulary V:
//
//   16 bits     logits 2V, until the loss is there · log-softmax of each sequence 2V kept
//   fp32        logits 4V kept, which accelerate widens where it runs autocast · their exponentials while they are summed
#include <algorithm>

#include "operators/loss_writer.h"

namespace steelyard {

namespace {
constexpr std::int64_t kTileTokens = 4096, kTileWords = 32'768;
constexpr const char* kOfTokens = "op.log-probabilities.tokens";
constexpr const char* kOfLogits = "op.log-probabilities.of-logits";
}  // namespace

template <class N>
ValueId LossWriter<N>::probabilities_in_tiles(ValueId x, const N& width) {
  const Sizes<N>& sizes = c_.sizes;
  const ElementType narrow = c_.style.compute, wide = ElementType::kFloat32;
  const char* kTile = "op.log-probabilities.tile";
  const ValueId hidden = x;
  // Of every sequence the last token predicts nothing.
  const N before = sizes.batch * (sizes.sequence - N(1));
  const N tokens =
      c_.style.prompt_tokens < 2
          ? before
          : sizes.batch * (sizes.sequence - Workbook<N>::symbol("p", c_.style.prompt_tokens));
  const ValueId before_last = c_.viewed("slice", x, before * width);
  const ElementType type = graph_.type(x);
  const bool asks = graph_.needs_gradient(x);
  const ValueId picked = c_.single(
      "index", before_last, {"loss", "states of tokens that count", "op.log-probabilities.picked"},
      tokens * width, type, {});

  const bool tied = model_.head.weight_index < 0;
  const ParameterTensor& head =
      tied ? model_.embedding_parameters.front()
           : model_.head_parameters[static_cast<std::size_t>(model_.head.weight_index)];
  const ElementType of_weight =
      head.stored.value_or(c_.style.autocast ? c_.style.gradient : narrow);
  const int gradient = weight_gradient(width, true);
  const std::int64_t rows = std::min(plain(tokens), kTileTokens);
  const std::int64_t words = std::min(plain(sizes.vocabulary), kTileWords);
  const auto temporary = [&](const char* name, const N& elements, ElementType of) {
    return graph_.temporary({"loss", name, kTile}, elements, of);
  };
  const SlotId tile = temporary("one tile of logits", N(rows) * N(kTileWords), narrow);
  const N part_of_weight = N(words) * width, part_of_states = N(rows) * width;
  const bool casts_weight = of_weight != narrow, casts_states = type != narrow;

  Operator operation;
  operation.label = "log probabilities";
  operation.inputs = {picked};
  const ValueId loss = graph_.tensor({"loss", "logarithms of probabilities", kOfTokens}, tokens,
                                     wide, asks || gradient >= 0);
  const ValueId sums =
      graph_.tensor({"loss", "log-sum-exp and entropy", kOfTokens}, tokens * N(2), wide, false);
  operation.outputs = {loss, sums};
  operation.saved = {picked, sums};
  operation.passing = {tile};
  if (casts_states)
    operation.passing.push_back(temporary("states of one tile, cast", part_of_states, narrow));
  if (casts_weight)
    operation.passing.push_back(temporary("weight of one tile, cast", part_of_weight, narrow));
  const auto step = [&](SlotId slot) {
    operation.backward.push_back({BackwardStep::kTemporary, 0, slot});
  };
  // Sums are what goes out where that is as wide.
  const bool sums_states = type != wide, sums_weight = of_weight != wide;
  const BackwardStep of_parameter{BackwardStep::kParameterGradient, gradient, -1};
  if (asks && sums_states) step(temporary("gradient of the states, fp32", tokens * width, wide));
  if (asks && !sums_states) operation.backward.push_back(kGradient0);
  if (gradient >= 0 && sums_weight)
    step(temporary("gradient of the weight, fp32", sizes.vocabulary * width, wide));
  if (gradient >= 0 && !sums_weight) operation.backward.push_back(of_parameter);
  step(tile);
  if (casts_states) step(temporary("states of one tile, cast", part_of_states, narrow));
  if (casts_weight) {
    step(temporary("weight of one tile, cast", part_of_weight, narrow));
    if (plain(sizes.vocabulary) > kTileWords)
      step(temporary("weight of the tile before, cast", part_of_weight, narrow));
  }
  if (asks && sums_states) operation.backward.push_back(kGradient0);
  if (gradient >= 0 && sums_weight) operation.backward.push_back(of_parameter);
  Arithmetic& work = operation.arithmetic = in_pieces(rows, plain(width));
  work.piece_bytes = 3 * bytes_each(narrow) * static_cast<double>(rows) *
                     static_cast<double>(plain(sizes.vocabulary));
  work.piece_launches = 2;
  graph_.add(operation);
  graph_.hold(hidden);
  return loss;
}

// Views of one sequence each: their gradients are joined in a new tensor when the last of them is there.
template <class N>
std::vector<ValueId> LossWriter<N>::rows_of(ValueId logits, std::int64_t rows) {
  constexpr std::int64_t kMost = 8;  // outputs of an operator; more are cut twice
  const N each = graph_.elements(logits) / N(rows);
  const std::int64_t within = (rows + kMost - 1) / kMost;
  Operator cut;
  cut.label = "unbind";
  cut.inputs = {logits};
  cut.backward = {kGradient0};
  std::vector<std::int64_t> counts;
  for (std::int64_t row = 0; row < rows; row += within) {
    counts.push_back(std::min(within, rows - row));
    cut.outputs.push_back(graph_.view(logits, each * N(counts.back())));
  }
  const std::vector<ValueId> parts(cut.outputs.begin(), cut.outputs.end());
  graph_.add(cut);
  if (within == 1) return parts;
  std::vector<ValueId> result;
  for (std::size_t part = 0; part < parts.size(); ++part)
    for (const ValueId row : rows_of(parts[part], counts[part])) result.push_back(row);
  return result;
}

template <class N>
ValueId LossWriter<N>::picked_by_log_softmax(ValueId row) {
  const ValueId logarithms =
      c_.single("log softmax", row, {"loss", "log-softmax of a sequence", kOfLogits},
                graph_.elements(row), graph_.type(row), {.output = true});
  const ValueId picked = graph_.tensor({"loss", "logarithms of probabilities", kOfTokens},
                                       graph_.elements(row) / c_.sizes.vocabulary, graph_.type(row),
                                       graph_.needs_gradient(row));
  Operator gather;
  gather.label = "gather";
  gather.inputs = {logarithms};
  gather.outputs = {picked};
  gather.backward = {kGradient0};
  graph_.add(gather);
  return picked;
}

// logsumexp: exponentials of the logits less their maximum, in forward and, twice, in backward.
template <class N>
ValueId LossWriter<N>::picked_by_log_sum(ValueId row) {
  const auto passing = [&](const char* name) {
    return graph_.temporary({"loss", name, kOfLogits}, graph_.elements(row), graph_.type(row));
  };
  const ValueId sums = graph_.tensor({"loss", "log-sum-exp of a sequence", kOfTokens},
                                     graph_.elements(row) / c_.sizes.vocabulary, graph_.type(row),
                                     graph_.needs_gradient(row));
  Operator sum;
  sum.label = "logsumexp";
  sum.inputs = {row};
  sum.outputs = {sums};
  sum.saved = {row, sums};
  sum.passing = {passing("exponentials of a sequence")};
  sum.backward = {{BackwardStep::kTemporary, 0, passing("logits less their sum")},
                  {BackwardStep::kTemporary, 0, passing("probabilities of a sequence")},
                  kGradient0};
  graph_.add(sum);
  return sums;
}

template <class N>
ValueId LossWriter<N>::probabilities_of_logits(ValueId x, ValueId labels, const N& width) {
  const Sizes<N>& sizes = c_.sizes;
  ValueId logits = capped(project(x, width));
  graph_.hold(x);
  if (c_.style.log_probabilities == LogProbabilities::kWhole && c_.style.loss == LossKernel::kFused)
    return picked_written_over(logits);
  c_.head_operators_to_logits = c_.position();
  // accelerate widens what a model returns under autocast.
  if (c_.style.autocast)
    logits = c_.cast(logits, ElementType::kFloat32, {"loss", "fp32 logits", kOfLogits});
  const ValueId likelihood =
      c_.style.likelihood_of_chosen ? likelihood_of_chosen(logits, labels) : kNoValue;
  const bool wide = graph_.type(logits) == ElementType::kFloat32;
  const bool by_kernel = c_.style.log_probabilities == LogProbabilities::kKernel;
  const ValueId before_last =
      c_.viewed("slice", logits, sizes.batch * (sizes.sequence - N(1)) * sizes.vocabulary);
  const ValueId picked = by_kernel ? picked_by_kernel(before_last) : picked_of(before_last, wide);
  // The trainer has a name for them until its loss is there.
  if (!by_kernel && (!wide || c_.style.scores)) graph_.outlive(logits);
  graph_.hold(logits);
  return likelihood == kNoValue ? picked : both_losses(picked, likelihood);
}

template <class N>
ValueId LossWriter<N>::picked_of(ValueId before_last, bool wide) {
  const Sizes<N>& sizes = c_.sizes;
  ValueId loss = kNoValue;
  const auto add = [&](ValueId picked) {
    if (loss == kNoValue) return void(loss = picked);
    const ValueId sum =
        graph_.tensor({"loss", "logarithms of probabilities, summed", kOfTokens},
                      graph_.elements(picked), graph_.type(picked), graph_.needs_gradient(picked));
    Operator operation;
    operation.label = "add";
    operation.inputs = {loss, picked};
    operation.outputs = {sum};
    operation.backward = {kAlias0, kAlias1};
    graph_.add(operation);
    loss = sum;
  };
  if (wide) {
    const ValueId picked = graph_.tensor({"loss", "logits of the labels", kOfTokens},
                                         sizes.batch * (sizes.sequence - N(1)),
                                         ElementType::kFloat32, graph_.needs_gradient(before_last));
    Operator gather;
    gather.label = "gather";
    gather.inputs = {before_last};
    gather.outputs = {picked};
    gather.backward = {kGradient0};
    graph_.add(gather);
    add(picked);
  }
  for (const ValueId row : rows_of(before_last, plain(sizes.batch)))
    add(wide ? picked_by_log_sum(row) : picked_by_log_softmax(row));
  return loss;
}

#define INSTANTIATE(N)                                                       \
  template ValueId LossWriter<N>::probabilities_in_tiles(ValueId, const N&); \
  template ValueId LossWriter<N>::probabilities_of_logits(ValueId, ValueId, const N&);
INSTANTIATE(Checked)
INSTANTIATE(Traced)
#undef INSTANTIATE

}  // namespace steelyard
