// Final norm and head, and which loss is written behind them.
#include <algorithm>

#include "operators/litgpt_loss.h"
#include "operators/loss_writer.h"
#include "operators/torchtune_loss.h"

namespace steelyard {

template <class N>
ValueId LossWriter<N>::write(ValueId x, ValueId labels, ValueId ids) {
  const ValueId given = x;
  if (model_.final_norm) {
    // The caller's name for it passes to what the norm returns.
    x = c_.normalise(x, *model_.final_norm, c_.sizes.shard_tokens, c_.sizes.hidden);
    graph_.hold(given);
  }
  if (follows_encoder(model_)) x = c_.dropout(x, c_.style.residual_dropout, "decoder");
  if (c_.style.recomputes_ends) c_.recompute_from(0);
  c_.head_operators_of_model = c_.position();
  if (follows_encoder(model_)) {
    const ValueId decoded = x;  // which the model's forward has a name for
    if (model_.encoder_part->scaled_output) x = c_.scale(x, {"head", "input, scaled", "op.scale"});
    const ValueId loss = loss_of(x, labels, c_.sizes.hidden);
    graph_.hold(decoded);
    return loss;
  }
  if (model_.image) {
    std::vector<ValueId> locals;
    const ValueId logits = model_.image->averages ? compose_mean_of_patches(c_, model_, x, locals)
                                                  : compose_class_token(c_, model_, x);
    const ValueId loss = transformers(logits, graph_.elements(logits), labels, x);
    for (const ValueId local : locals) graph_.hold(local);
    return loss;
  }
  if (model_.head_transform) {
    const HeadTransform& transform = *model_.head_transform;
    x = c_.linear(x, transform.dense, c_.sizes.shard_tokens, c_.sizes.hidden, c_.sizes.hidden);
    x = c_.activate(x, transform.activation, transform.dense.name.c_str());
    x = c_.normalise(x, transform.norm, c_.sizes.shard_tokens, c_.sizes.hidden);
  }
  N width = c_.sizes.hidden;
  if (model_.project_out) {
    width = Workbook<N>::symbol("w", model_.embedding_width);
    x = c_.linear(x, *model_.project_out, c_.sizes.tokens, c_.sizes.hidden, width);
    c_.head_operators_of_model = c_.position();
  }
  if (c_.style.implementation == Implementation::kTorchtune && c_.style.tensor == 1)
    return torchtune(x, labels, given, width);
  if (!model_.predictions.empty()) return of_all_depths(x, labels, ids, width);
  return loss_of(x, labels, width);
}

template <class N>
ValueId LossWriter<N>::loss_of(ValueId x, ValueId labels, const N& width) {
  if (c_.style.rewards) return reward(x, width);
  if (c_.style.log_probabilities == LogProbabilities::kTiles)
    return probabilities_in_tiles(x, width);
  if (c_.style.log_probabilities != LogProbabilities::kNone)
    return probabilities_of_logits(x, labels, width);
  const bool whole_vocabulary_here = c_.style.tensor == 1;
  if (c_.style.loss == LossKernel::kFusedLinear && whole_vocabulary_here)
    return fused_linear(x, labels, width);
  if (c_.style.loss == LossKernel::kCut && whole_vocabulary_here) return cut(x, labels, width);
  if (c_.style.loss == LossKernel::kChunked && whole_vocabulary_here)
    return chunked(x, width), kNoValue;
  if (c_.style.implementation == Implementation::kLitgpt) {
    LitgptLoss<N> loss(c_);
    return loss.of(capped(project(loss.begin(x), width)), labels);
  }
  const ValueId normalised = x;
  const ValueId gathered = c_.gathered(x, width, "head");
  const int begin = c_.position();
  const ValueId logits = project(gathered, width);
  c_.head_operators_to_logits = c_.position();
  if (!c_.style.loss_parallel) {
    const ValueId of_all = whole(logits);
    if (c_.style.recomputes_ends) c_.recompute_from(begin);
    return transformers(of_all, c_.sizes.tokens * c_.sizes.vocabulary, labels, normalised);
  }
  switch (c_.style.implementation) {
    case Implementation::kMegatron:
      return megatron(logits), kNoValue;
    case Implementation::kNanotron:
      return nanotron(logits), kNoValue;
    default:
      return transformers(logits, c_.sizes.tokens * c_.sizes.vocabulary / c_.sizes.tensor, labels,
                          normalised);
  }
}

template <class N>
ValueId LossWriter<N>::torchtune(ValueId x, ValueId labels, ValueId hidden, const N& width) {
  TorchtuneLoss<N> loss(c_);
  if (c_.style.loss != LossKernel::kChunked)
    return loss.whole(capped(project(x, width)), labels, hidden);
  const bool tied = model_.head.weight_index < 0;
  const ParameterTensor& weight =
      tied ? model_.embedding_parameters.front()
           : model_.head_parameters[static_cast<std::size_t>(model_.head.weight_index)];
  // torch's chunk() makes no more than there are tokens.
  const std::int64_t count = std::min(c_.style.loss_chunks, plain(c_.sizes.sequence));
  const std::int64_t length = (plain(c_.sizes.sequence) + count - 1) / count;
  const std::int64_t made = (plain(c_.sizes.sequence) + length - 1) / length;
  return loss.in_chunks(x, labels, hidden, width,
                        summed(static_cast<std::size_t>(made), tied && c_.style.ends_meet,
                               c_.sizes.vocabulary * width, weight, true));
}

template <class N>
int LossWriter<N>::weight_gradient(const N& width, bool made) {
  if (model_.head.weight_index < 0) return tied_gradient(width, !made);
  const N elements = c_.sizes.vocabulary * width / c_.sizes.tensor;
  return made ? c_.uncast_parameter(model_.head.weight_index, elements)
              : c_.parameter(model_.head.weight_index, elements);
}

template <class N>
ValueId LossWriter<N>::project(ValueId x, const N& width) {
  const Linear& head = model_.head;
  if (head.weight_index >= 0 && shared_gradient_)
    c_.take_parameter(head.weight_index, *shared_gradient_);
  if (head.weight_index >= 0) return c_.column_linear(x, model_.head, width, c_.sizes.vocabulary);
  // Tied: the weight is the embedding's. Its gradient appears here first and waits for the embedding's.
  if (c_.style.tensor == 1) {
    typename Composer<N>::Factor factor;
    factor.weight_gradient = tied_gradient(width);
    factor.bias_gradient = c_.parameter(head.bias_index, c_.sizes.vocabulary);
    factor.biased = head.bias;
    factor.type = c_.style.compute;
    factor.stored = model_.embedding_parameters.front().stored;
    return c_.product(x, {"head", "logits", "op.linear.output"}, c_.sizes.tokens, width,
                      c_.sizes.vocabulary, factor);
  }
  const N local = c_.sizes.vocabulary / c_.sizes.tensor;
  const ValueId y = graph_.tensor({"head", "logits", "op.linear.output"}, c_.sizes.tokens * local,
                                  c_.style.compute, true);
  Operator operation;
  operation.label = "tied head";
  operation.inputs = {x};
  operation.outputs = {y};
  operation.arithmetic = {Arithmetic::kProduct, plain(c_.sizes.tokens), plain(width), plain(local)};
  if (!c_.style.distributed_tensors && !c_.style.gathers_once)
    c_.exchange_input(operation,
                      Composer<N>::payload_of(c_.sizes.tokens * width, c_.style.compute));
  const int gradient = tied_gradient(width);
  if (gradient >= 0) operation.saved = {x};
  operation.backward = {{BackwardStep::kParameterGradient, gradient, -1}, kGradient0};
  if (c_.style.sequence_parallel && !c_.style.distributed_tensors && !c_.style.gathers_once &&
      !c_.style.gathers_into_buffers) {
    const SlotId gathered =
        c_.book.slot({"head", "gathered input", "tensor.gathered-input"}, Pile::kCommunication,
                     c_.sizes.tokens * width, c_.style.compute);
    operation.passing = {gathered};
  }
  graph_.add(operation);
  return y;
}

template <class N>
int LossWriter<N>::tied_gradient(const N& width, bool of_product) {
  if (shared_gradient_) return *shared_gradient_;
  if (!model_.embedding_parameters.front().gradient) return -1;
  GradientSlots slots =
      c_.gradient_slots({"head", "gradient of the tied weight", "autograd.parameter-gradient"},
                        c_.sizes.vocabulary * width / c_.sizes.tensor, of_product);
  slots.waits = c_.style.ends_meet;
  // What a cast has made takes the sum, and so does what an encoder's table shares; a product's is a transposed view.
  slots.is_alone = !of_product;
  if (slots.waits && c_.style.parameters_are_views && slots.computed < 0 && of_product &&
      !model_.encoder_part)
    slots.sum = c_.book.slot({"head", "gradient of the tied weight, summed", "fsdp1.tied-gradient"},
                             Pile::kGradients, c_.sizes.vocabulary * width / c_.sizes.tensor,
                             c_.style.gradient);
  return graph_.parameter(slots);
}

// Every rank gathers the logits of all, and takes its part of their gradient. scaling has a tensor for each rank's, into which
// the library copies out of one that holds all of them; then they are joined (core/nn/linear/utils.py, _all_concat).
template <class N>
ValueId LossWriter<N>::whole(ValueId logits) {
  const N elements = c_.sizes.tokens * c_.sizes.vocabulary;
  Operator gather;
  gather.label = "gather";
  gather.inputs = {logits};
  gather.forward_exchanges = {{ExchangeKind::kAllGather, Axis::kTensor,
                               Composer<N>::payload_of(elements, c_.style.compute)}};
  if (c_.style.implementation == Implementation::kScaling) {
    const std::int64_t ranks = c_.style.tensor;
    TensorSum pieces = c_.book.tensor_sum();
    pieces.add(
        allocated_size(bytes_of(Elements(Checked(plain(elements) / ranks)), c_.style.compute)),
        ranks, 0);
    gather.passing = {
        c_.book.slot_of_tensors({"loss", "logits of each rank", "op.gathered-logits"},
                                Pile::kCommunication, elements, c_.style.compute,
                                std::move(pieces)),
        c_.book.slot({"loss", "logits of all ranks, as they come", "op.gathered-logits"},
                     Pile::kCommunication, elements, c_.style.compute)};
    graph_.add(gather);
    gather = Operator();
    gather.label = "join";
    gather.inputs = {logits};
  }
  const ValueId of_all = graph_.tensor({"loss", "logits of all ranks", "op.gathered-logits"},
                                       elements, c_.style.compute, graph_.needs_gradient(logits));
  gather.outputs = {of_all};
  gather.backward = {kGradient0};
  graph_.add(gather);
  return of_all;
}

template <class N>
ValueId LossWriter<N>::capped(ValueId logits) {
  if (model_.scaled_logits) logits = c_.scale(logits, {"loss", "logits, scaled", "op.scale"});
  if (!model_.final_softcap) return logits;
  logits = c_.scale(logits, {"loss", "logits / cap", "op.scale"});
  logits = c_.pointwise("tanh", logits, {"loss", "tanh(logits)", "op.tanh.saved-output"},
                        {.output = true});
  return c_.scale(logits, {"loss", "capped logits", "op.scale"});
}

template class LossWriter<Checked>;
template class LossWriter<Traced>;

template <class N>
ValueId compose_head(Composer<N>& composer, const Architecture& model, ValueId x, ValueId labels,
                     ValueId ids) {
  return LossWriter<N>(composer, model).write(x, labels, ids);
}

template <class N>
ValueId compose_cross_entropy(Composer<N>& composer, const Architecture& model, ValueId logits,
                              ValueId labels) {
  return LossWriter<N>(composer, model).cross_entropy(logits, labels);
}

template ValueId compose_cross_entropy(Composer<Checked>&, const Architecture&, ValueId, ValueId);
template ValueId compose_cross_entropy(Composer<Traced>&, const Architecture&, ValueId, ValueId);
template ValueId compose_head(Composer<Checked>&, const Architecture&, ValueId, ValueId, ValueId);
template ValueId compose_head(Composer<Traced>&, const Architecture&, ValueId, ValueId, ValueId);

}  // namespace steelyard
