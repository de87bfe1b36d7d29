// Final norm, head and cross entropy: the peak of many runs, because logits are as wide as the vocabulary.
//
//   transformers, bytes a token   logits 2V · fp32 copy 4V · log-softmax 4V kept   forward 10V, backward 12V
//   the same, loss_parallel       logits 2V · fp32 copy 4V · two of 4V, one kept      forward 14V, backward 16V, each / t
//   fused, one kernel             logits 2V kept · gradient 2V, or in the logits' place
//   megatron                      logits 2V · fp32 exponentials 4V kept, gradient in place, cast 2V
//   nanotron                      logits 2V · fp32 4V · shifted 4V, normalised in place and kept; gradient in place, cast 2V
#include <algorithm>

#include "operators/ends.h"

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

template <class N>
class LossWriter {
 public:
  LossWriter(Composer<N>& composer, const Architecture& model)
      : c_(composer), graph_(composer.graph), model_(model) {}

  ValueId cross_entropy(ValueId logits, ValueId labels) {
    return transformers(logits, graph_.elements(logits), labels, logits);
  }

  ValueId write(ValueId x, ValueId labels, ValueId ids) {
    if (model_.final_norm)
      x = c_.normalise(x, *model_.final_norm, c_.sizes.shard_tokens, c_.sizes.hidden);
    c_.head_operators_of_model = c_.position();
    if (model_.image) {
      const ValueId logits = compose_class_token(c_, model_, x);
      return transformers(logits, graph_.elements(logits), labels, x);
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
    if (!model_.predictions.empty()) return of_all_depths(x, labels, ids, width);
    return loss_of(x, labels, width);
  }

 private:
  // Each module's logits and loss, then the model's own. A module's loss comes into backward beside the hidden states of the
  // model (MTPLossAutoScaler); gradients of one weight wait for one another.
  ValueId of_all_depths(ValueId x, ValueId labels, ValueId ids, const N& width) {
    const std::size_t depths = model_.predictions.size();
    const N rows = c_.sizes.vocabulary * width / c_.sizes.tensor;
    std::vector<int> tables, heads;
    if (model_.tied_head) {
      heads = summed(2 * depths + 1, c_.style.ends_meet, rows, model_.embedding_parameters[0]);
      tables.assign(heads.rbegin(), heads.rbegin() + static_cast<std::ptrdiff_t>(depths));
    } else {
      heads = summed(depths + 1, false, rows,
                     model_.head_parameters[static_cast<std::size_t>(model_.head.weight_index)]);
      tables = summed(depths, c_.style.ends_meet, rows, model_.embedding_parameters[0]);
      std::reverse(tables.begin(), tables.end());
    }
    const std::vector<ValueId> outputs = compose_predictions(c_, model_, x, ids, tables);
    ValueId own = outputs[0];
    for (std::size_t depth = 1; depth <= depths; ++depth) {
      shared_gradient_ = heads[depths + 1 - depth];
      own = beside(own, loss_of_depth(outputs[depth], width));
    }
    shared_gradient_ = heads[0];
    const ValueId loss = loss_of(own, labels, width);
    // locals of the model's forward until it returns
    for (ValueId local : {logits_of_depth_, labels_of_depth_, loss_of_depth_}) graph_.hold(local);
    return loss;
  }
  // Parameters for so many uses of one weight, in backward's order: the first's gradient waits for the sum. `leaves`: for
  // another graph's, too.
  std::vector<int> summed(std::size_t uses, bool leaves, const N& elements,
                          const ParameterTensor& weight) {
    if (!weight.gradient) return std::vector<int>(uses, -1);
    std::vector<int> parameters;
    SlotId first = -1;
    for (std::size_t use = 0; use < uses; ++use) {
      GradientSlots slots = c_.gradient_slots(
          {weight.name.c_str(), "gradient", "autograd.parameter-gradient"}, elements);
      slots.waits = leaves || use + 1 < uses;
      slots.waiting = first;
      slots.waiting_was_cast = true;  // the sum is made in place
      if (use == 0) first = slots.kept;
      parameters.push_back(graph_.parameter(slots));
    }
    return parameters;
  }
  // The mask x the loss of each token, scaled, divided by how many count.
  ValueId loss_of_depth(ValueId hidden, const N& width) {
    const auto of_tokens = [&](const char* name, ElementType type) {
      const ValueId made =
          graph_.tensor({"mtp", name, "megatron.prediction-loss"}, c_.sizes.tokens, type, false);
      Operator make;
      make.label = "roll";
      make.outputs = {made};
      graph_.add(make);
      return made;
    };
    const ValueId logits = project(c_.gathered(hidden, width, "head"), width);
    if (logits_of_depth_ != kNoValue) graph_.hold(logits_of_depth_);
    logits_of_depth_ = logits;
    labels_of_depth_ = of_tokens("labels, one further", ElementType::kInt64);
    const ValueId mask = of_tokens("tokens that count", ElementType::kInt64);
    const ValueId loss = megatron(logits);
    const SlotName name{"mtp", "loss by token", "megatron.prediction-loss"};
    const ValueId masked = graph_.tensor(name, c_.sizes.tokens, ElementType::kFloat32, true);
    Operator multiply;
    multiply.label = "multiply";
    multiply.inputs = {loss, mask};
    multiply.outputs = {masked};
    multiply.saved = {mask};
    multiply.backward = {kGradient0};
    graph_.add(multiply);
    loss_of_depth_ = masked;
    const ValueId counted = graph_.tensor({"mtp", "how many count", "megatron.prediction-loss"},
                                          N(1), ElementType::kInt64, false);
    const ValueId scaled = c_.scale(masked, name);
    const ValueId divided = graph_.tensor(name, c_.sizes.tokens, ElementType::kFloat32, true);
    Operator divide;
    divide.label = "divide";
    divide.inputs = {scaled};
    divide.outputs = {divided, counted};
    divide.saved = {counted};
    divide.backward = {kGradient0};
    graph_.add(divide);
    return divided;
  }
  ValueId beside(ValueId hidden, ValueId loss) {
    const ValueId y = graph_.view(hidden, graph_.elements(hidden));
    Operator scaler;
    scaler.label = "loss beside";
    scaler.inputs = {hidden, loss};
    scaler.outputs = {y};
    scaler.saved = {loss};
    scaler.backward = {kAlias0, kGradient1};
    graph_.add(scaler);
    return y;
  }

  ValueId loss_of(ValueId x, ValueId labels, const N& width) {
    const bool whole_vocabulary_here = c_.style.tensor == 1;
    if (c_.style.loss == LossKernel::kFusedLinear && whole_vocabulary_here)
      return fused_linear(x, width), kNoValue;
    if (c_.style.loss == LossKernel::kChunked && whole_vocabulary_here)
      return chunked(x, width, labels), kNoValue;
    const ValueId normalised = x;
    const ValueId logits = project(c_.gathered(x, width, "head"), width);
    if (!c_.style.loss_parallel)
      return transformers(whole(logits), c_.sizes.tokens * c_.sizes.vocabulary, labels, normalised);
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

  int weight_gradient(const N& width) {
    // A tied head adds to the embedding's gradient; its own tensor is then the embedding's, of the same size.
    return c_.parameter(model_.head.weight_index >= 0 ? model_.head.weight_index : 0,
                        c_.sizes.vocabulary * width / c_.sizes.tensor);
  }

  ValueId project(ValueId x, const N& width) {
    Linear head = model_.head;
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
    operation.arithmetic = {Arithmetic::kProduct, plain(c_.sizes.tokens), plain(width),
                            plain(local)};
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

  int tied_gradient(const N& width) {
    if (shared_gradient_) return *shared_gradient_;
    if (!model_.embedding_parameters.front().gradient) return -1;
    GradientSlots slots =
        c_.gradient_slots({"head", "gradient of the tied weight", "autograd.parameter-gradient"},
                          c_.sizes.vocabulary * width / c_.sizes.tensor);
    slots.waits = c_.style.ends_meet;
    return graph_.parameter(slots);
  }

  // Every rank gathers the logits of all, and takes its part of their gradient.
  ValueId whole(ValueId logits) {
    const ValueId y = graph_.tensor({"loss", "logits of all ranks", "op.gathered-logits"},
                                    c_.sizes.tokens * c_.sizes.vocabulary, c_.style.compute, true);
    one(logits, y, "gather", {});
    return y;
  }

  // ForCausalLMLoss (transformers loss_utils.py): logits.float(), then torch's cross entropy.
  ValueId transformers(ValueId logits, const N& elements, ValueId labels, ValueId hidden) {
    const ValueId raw = logits;
    if (model_.final_softcap) {
      logits = c_.scale(logits, {"loss", "logits / cap", "op.scale"});
      const ValueId y = graph_.tensor({"loss", "tanh(logits)", "op.tanh.saved-output"}, elements,
                                      c_.style.compute, true);
      one(logits, y, "tanh", {y});
      logits = c_.scale(y, {"loss", "capped logits", "op.scale"});
    }
    if (c_.style.loss == LossKernel::kFused || c_.style.compiled)
      return fused(logits, raw, labels, hidden);
    // Where the training loop asks for the loss, the labels come as they are wanted.
    const bool outside =
        c_.style.schedule_asks_for_loss || c_.style.implementation == Implementation::kTorchtitan;
    // Sequences that ranks share are shifted before they are cut.
    const bool is_shifted =
        outside || (c_.style.context > 1 && c_.style.context_code == ContextCode::kTorch);
    const bool moves_logits =
        c_.style.shifted != Shifted::kLabels && !is_shifted && !model_.encoder;
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
    const ValueId log_softmax =
        graph_.tensor({"loss", "log-softmax", "op.cross-entropy.saved-log-softmax"}, counted,
                      graph_.type(wide), true);
    if (c_.style.distributed_tensors)
      parallel_log_softmax(wide, log_softmax);
    else
      one(wide, log_softmax, "log softmax", {log_softmax});
    // cross_entropy_loss asks for the logits' own type; what picks from it is on autocast's list of fp32 operators.
    const ValueId picked = c_.style.autocast
                               ? c_.cast(log_softmax, ElementType::kFloat32,
                                         {"loss", "log-softmax, fp32", "autocast.fp32-operator"})
                               : log_softmax;
    const ValueId loss =
        graph_.tensor({"loss", "loss", "op.cross-entropy.loss"}, N(1), ElementType::kFloat32, true);
    const ValueId weight = graph_.tensor({"loss", "total weight", "op.cross-entropy.loss"}, N(1),
                                         ElementType::kFloat32, false);
    Operator pick;
    pick.label = "negative log likelihood";
    pick.inputs = {picked, target};
    pick.outputs = {loss, weight};
    pick.saved = {picked, target, weight};
    if (c_.style.distributed_tensors) of_parallel_loss(pick.backward, elements);
    pick.backward.push_back(kGradient0);
    graph_.add(pick);
    if (moves_logits) graph_.hold(moved_logits);
    if (!narrow) graph_.hold(widened_logits);
    if (c_.style.schedule_asks_for_loss)
      graph_.outlive(raw);
    else if (!moves_logits || c_.style.shifted != Shifted::kWideLogits)
      graph_.hold(raw);  // a local of the model's forward until it returns, or of the training loop
    if (!outside) graph_.hold(hidden);
    if (padded_ != kNoValue) graph_.hold(padded_);
    return loss;
  }

  ValueId widened(ValueId logits) {
    return c_.cast(logits, ElementType::kFloat32,
                   {"loss", "fp32 logits", "op.cross-entropy.fp32-logits"});
  }

  // logits[..., :-1, :].contiguous(): a copy of several sequences, and of one what stands there. The gradient comes back
  // as a tensor of the whole size.
  ValueId moved(ValueId logits) {
    const SlotName name{"loss", "logits but the last", "op.cross-entropy.shifted-logits"};
    const N elements = c_.sizes.batch * (c_.sizes.sequence - N(1)) * c_.sizes.vocabulary;
    const ValueId part = plain(c_.sizes.batch) == 1
                             ? graph_.view(logits, elements)
                             : graph_.tensor(name, elements, graph_.type(logits), true);
    one(logits, part, "slice", {});
    return part;
  }
  ValueId labels_after_the_first(ValueId labels) {
    const N tokens = c_.sizes.batch * (c_.sizes.sequence - N(1));
    if (plain(c_.sizes.batch) == 1) return graph_.view(labels, tokens);
    const SlotName moved{"loss", "labels, shifted", "op.cross-entropy.shifted-labels"};
    const ValueId target = graph_.tensor(moved, tokens, ElementType::kInt64, false);
    one(labels, target, "copy", {});
    return target;
  }

  // One kernel from 16-bit logits to the loss: flash-attn's keeps them and makes their gradient (losses/cross_entropy.py),
  // Liger's has written it over them in forward (ops/cross_entropy.py). Compiled, cast and softmax are part of the kernels.
  ValueId fused(ValueId logits, ValueId raw, ValueId labels, ValueId hidden) {
    const bool outside = c_.style.schedule_asks_for_loss;
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
    operation.backward = {c_.style.liger ? BackwardStep{BackwardStep::kInPlaceGradient, 0, -1}
                                         : kGradient0};
    graph_.add(operation);
    if (outside)
      graph_.outlive(raw);
    else
      graph_.hold(hidden);
    if (padded_ != kNoValue) graph_.hold(padded_);
    return loss;
  }

  // loss_parallel (torch/distributed/tensor/parallel/loss.py), written in Python: logits less their maximum, their
  // exponentials until these are summed, then the result; three numbers for each token. Backward passes through.
  void parallel_log_softmax(ValueId wide, ValueId result) {
    const char* rule = "op.loss-parallel.log-softmax";
    const ElementType type = graph_.type(wide);
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
  }

  // The largest logit of each token, the sum of exponentials and the target's logit, over the tensor ranks.
  void exchange_numbers(Operator& operation) const {
    if (c_.style.tensor == 1) return;
    const Exchange numbers{ExchangeKind::kAllReduce, Axis::kTensor,
                           Composer<N>::payload_of(c_.sizes.tokens, ElementType::kFloat32)};
    operation.forward_exchanges = {numbers, numbers, numbers};
  }

  // Both backwards in one, (zeros with the targets + exponentials) x what arrives: three tensors of all logits here.
  void of_parallel_loss(Few<BackwardStep, 14>& steps, const N& elements) {
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

  // A causal model's labels move by one: padded at the end, and the part after the first copied (loss_utils.py).
  ValueId shifted(ValueId labels) {
    if (model_.encoder) return labels;
    const SlotName padded{"loss", "labels, padded", "op.cross-entropy.shifted-labels"};
    padded_ = graph_.tensor(padded, c_.sizes.batch * (c_.sizes.sequence + N(1)),
                            ElementType::kInt64, false);
    one(labels, padded_, "pad", {});
    // Of one sequence, the part after the first is contiguous as it stands.
    if (plain(c_.sizes.batch) == 1) return graph_.view(padded_, c_.sizes.tokens);
    const SlotName moved{"loss", "labels, shifted", "op.cross-entropy.shifted-labels"};
    const ValueId target = graph_.tensor(moved, c_.sizes.tokens, ElementType::kInt64, false);
    one(padded_, target, "copy", {});
    return target;
  }

  // megatron/core/tensor_parallel/cross_entropy.py: exponentials in place of the fp32 copy, kept; gradient in place.
  ValueId megatron(ValueId logits) {
    const N elements = graph_.elements(logits);
    const ValueId exponentials =
        graph_.tensor({"loss", "fp32 exponentials", "op.megatron-cross-entropy.saved-exponentials"},
                      elements, ElementType::kFloat32, false);
    const ValueId loss = graph_.tensor({"loss", "loss by token", "op.cross-entropy.loss"},
                                       c_.sizes.tokens, ElementType::kFloat32, true);
    const char* rule = "op.megatron-cross-entropy.targets";
    const auto of_tokens = [&](const char* name, ElementType type) {
      return graph_.tensor({"loss", name, rule}, c_.sizes.tokens, type, false);
    };
    const ValueId mask = of_tokens("targets of other ranks", ElementType::kBool);
    const ValueId target =
        of_tokens("targets, counted from this rank's first", ElementType::kInt64);
    const auto passing = [&](const char* name, ElementType type) {
      return graph_.temporary({"loss", name, rule}, c_.sizes.tokens, type);
    };
    Operator operation;
    operation.label = "vocabulary-parallel cross entropy";
    operation.inputs = {logits};
    operation.outputs = {loss, exponentials, mask, target};
    operation.saved = {exponentials, mask, target};
    operation.passing = {passing("largest logits", ElementType::kFloat32),
                         passing("rows", ElementType::kInt64),
                         passing("logits of the targets", ElementType::kFloat32)};
    operation.backward = {kGradient0};  // the cast of the in-place gradient
    exchange_numbers(operation);
    graph_.add(operation);
    return loss;
  }

  // nanotron parallel/tensor_parallel/functional.py, _ShardedCrossEntropy: fp32 logits stay with the caller while the
  // shifted copy becomes probabilities in place.
  void nanotron(ValueId logits) {
    const N elements = graph_.elements(logits);
    const ValueId wide = graph_.tensor({"loss", "fp32 logits", "op.cross-entropy.fp32-logits"},
                                       elements, ElementType::kFloat32, true);
    const ValueId probabilities =
        graph_.tensor({"loss", "probabilities", "op.nanotron-cross-entropy.saved-probabilities"},
                      elements, ElementType::kFloat32, false);
    const ValueId target =
        graph_.tensor({"loss", "target index", "op.nanotron-cross-entropy.saved-probabilities"},
                      c_.sizes.tokens, ElementType::kInt64, false);
    const ValueId loss = graph_.tensor({"loss", "loss by token", "op.cross-entropy.loss"},
                                       c_.sizes.tokens, ElementType::kFloat32, true);
    Operator widen;
    widen.label = "cast";
    widen.inputs = {logits};
    widen.outputs = {wide};
    widen.saved = {
        probabilities};  // the gradient is built in them and lives until it has been cast back
    widen.backward = {kGradient0};
    graph_.add(widen);
    Operator operation;
    operation.label = "sharded cross entropy";
    operation.inputs = {wide};
    operation.outputs = {probabilities, target, loss};
    operation.saved = {target};
    exchange_numbers(operation);
    graph_.add(operation);
  }

  // Liger: chunks of logits; the gradients of input and weight are made in forward and kept.
  void fused_linear(ValueId x, const N& width) {
    const Sizes<N>& sizes = c_.sizes;
    const N chunk(liger_chunk(plain(sizes.tokens), plain(sizes.vocabulary), plain(width)));
    const ValueId input_gradient = graph_.tensor(
        {"loss", "input gradient, made in forward", "op.fused-linear-loss.saved-gradients"},
        sizes.tokens * width, c_.style.compute, false);
    const int gradient =
        model_.head.weight_index >= 0 ? weight_gradient(width) : tied_gradient(width);
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
  void chunked(ValueId x, const N& width, ValueId) {
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
        graph_.temporary({"loss", "fp32 gradient of one chunk", rule}, piece,
                         ElementType::kFloat32)};
    operation.backward = {
        kGradient0,
        {BackwardStep::kParameterGradient,
         model_.head.weight_index >= 0 ? weight_gradient(width) : tied_gradient(width), -1}};
    graph_.add(operation);
  }

  void one(ValueId x, ValueId y, const char* label, Few<ValueId, 10> saved) {
    Operator operation;
    operation.label = label;
    operation.inputs = {x};
    operation.outputs = {y};
    operation.saved = saved;
    operation.backward = {kGradient0};
    graph_.add(operation);
  }

  Composer<N>& c_;
  Graph<N>& graph_;
  const Architecture& model_;
  ValueId padded_ = kNoValue;
  ValueId logits_of_depth_ = kNoValue, labels_of_depth_ = kNoValue, loss_of_depth_ = kNoValue;
  std::optional<int> shared_gradient_;  // of the head's weight, where it is used more than once
};

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
