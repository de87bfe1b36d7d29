// Attention over a sequence that several ranks share. What one rank holds, in tokens of its own part (T = b·s/c):
//
//   torch, ring or allgather      q, k, v, out, log-sum-exp; while it runs fp32 partial outputs, and keys and values
//                                 travelling (three of them) or of all ranks (c of them)
//   Transformer Engine, ring      q, out, and the keys and values that came last; while it runs those of every step (c of
//                                 them) and every step's output
//   Transformer Engine, allgather q, k, v, out; while it runs keys and values of all ranks
//   all-to-all (Ulysses)          q, k, v and out of the whole sequence for heads / c: as many elements
//
// Ranks of a ring differ. In torch's the steps up to a rank's own number see half of the keys and give a whole output to add
// up, the later ones half of the queries and half of one. Whoever has both kinds joins an output in parts, which the flash
// kernel's backward puts in one piece: rank 1, where there are more than two, has the most, and is weighed; of two, rank 0.
// Sources: torch/distributed/tensor/experimental/_context_parallel/_attention.py (2.11), Transformer Engine
// pytorch/attention/dot_product_attention/context_parallel.py, DeepSpeed runtime/sequence_parallel/ulysses_sp.py.
#include <utility>

#include "operators/composer.h"

namespace steelyard {

namespace {
constexpr const char* kOwner = "attention";
}  // namespace

template <class N>
class ContextAttention {
 public:
  ContextAttention(Composer<N>& composer, const N& heads, const N& key_value_heads,
                   const N& query_width, const N& value_width, bool causal)
      : c_(composer),
        graph_(composer.graph),
        type_(composer.style.compute),
        heads_(heads),
        key_value_heads_(key_value_heads),
        query_width_(query_width),
        value_width_(value_width),
        causal_(causal),
        rows_(composer.sizes.tokens * heads),
        queries_(composer.sizes.tokens * query_width),
        outputs_(composer.sizes.tokens * value_width) {}

  // torch's context_parallel: fused kernels are caught below autograd, which therefore keeps what it always keeps.
  ValueId torch_ring(ValueId q, ValueId k, ValueId v) {
    const N pair = pair_of(k, v);
    const std::int64_t ranks = c_.style.context;
    const bool gathers = c_.style.context_method == ContextMethod::kAllGather;
    // The pair in use, the one sent on and the one that comes; of two ranks the last step sends nothing. In backward a name
    // holds what was sent on last.
    const auto travelling = [&](bool backward) {
      return gathers ? several("keys and values of all ranks", "context.gathered-keys-values",
                               Pile::kCommunication, pair, ranks + (backward ? 1 : 0), type_)
                     : several("keys and values on their way", "context.ring-buffers",
                               Pile::kCommunication, pair,
                               ranks > 2  ? 3
                               : backward ? 2
                                          : 1,
                               type_);
    };
    Operator operation = begin("ring attention", q, k, v);
    // A step's pair travels while the one before is multiplied; all of them at once have nothing to hide behind.
    const double all_pairs = payload(pair * c_.sizes.context, type_);
    const Beside beside = gathers ? Beside::kNothing : Beside::kAttention;
    operation.forward_exchanges = {{ExchangeKind::kAllGather, Axis::kContext, all_pairs, beside}};
    operation.backward_exchanges = {
        {ExchangeKind::kAllGather, Axis::kContext, all_pairs, beside},
        {ExchangeKind::kReduceScatter, Axis::kContext,
         payload(pair * c_.sizes.context, ElementType::kFloat32), beside}};
    operation.saved = {q, k, v, operation.outputs[0], operation.outputs[1]};
    if (c_.style.attention == AttentionKernel::kFlash) keep_random_state(operation, N(2), N(1));
    // Joined so far, the step's own, their difference and what of it is taken off; the step's 16-bit output goes as the
    // result comes.
    operation.passing = {travelling(false),
                         several("partial outputs, fp32", "context.torch-merge", Pile::kTemporary,
                                 outputs_, 4, ElementType::kFloat32),
                         several("partial log-sum-exp", "context.torch-merge", Pile::kTemporary,
                                 rows_, 2, ElementType::kFloat32)};
    const char* rule = "context.torch-backward";
    operation.backward = {kGradient0, kGradient1, kGradient2, step(travelling(true))};
    step_for(operation, several("query gradient, fp32", rule, Pile::kTemporary, queries_, 1,
                                ElementType::kFloat32));
    // Added up here, sent on and coming.
    step_for(operation, several("key and value gradients, fp32", rule, Pile::kCommunication, pair,
                                3, ElementType::kFloat32));
    // The second step, with what the first one has given still there.
    const N sequence = c_.sizes.sequence;
    const auto temporary = [&](const char* name, const N& elements, ElementType type,
                               std::int64_t count = 1) {
      step_for(operation, several(name, rule, Pile::kTemporary, elements, count, type));
    };
    const bool flash = c_.style.attention == AttentionKernel::kFlash;
    if (ranks == 2) {
      temporary("query gradient of half the queries", halved(queries_), type_);
      temporary("key and value gradients of a step", pair, type_);
      // Of one sequence the half of its gradient is in one piece as it is.
      if (flash)
        temporary("output of half the queries and its gradient, in one piece", halved(outputs_),
                  type_, plain(c_.sizes.batch) > 1 ? 2 : 1);
      temporary("log-sum-exp of half the queries", halved(rows_), ElementType::kFloat32);
      add_workspaces(operation, halved(sequence), sequence);
    } else {
      temporary("query gradient of a step", queries_, type_);
      temporary("key and value gradients of half the keys", halved(pair), type_);
      if (flash) temporary("output, in one piece", outputs_, type_);
      add_workspaces(operation, sequence, halved(sequence));
    }
    return finish(operation);
  }

  // Transformer Engine's ring is one autograd function: it keeps the keys and values of its last step, not its own.
  ValueId engine_ring(ValueId q, ValueId k, ValueId v, const N& ranks) {
    const N pair = pair_of(k, v);
    const std::int64_t steps = plain(ranks);
    const ValueId last =
        graph_.tensor({kOwner, "keys and values of the last step", "context.engine-saved-pair"},
                      pair, type_, false);
    Operator operation = begin("ring attention", q, k, v);
    const double all_pairs = payload(pair * ranks, type_);
    operation.forward_exchanges = {
        {ExchangeKind::kAllGather, Axis::kContext, all_pairs, Beside::kAttention}};
    operation.backward_exchanges = {
        {ExchangeKind::kAllGather, Axis::kContext, all_pairs, Beside::kAttention},
        {ExchangeKind::kReduceScatter, Axis::kContext, all_pairs, Beside::kAttention}};
    operation.outputs.push_back(last);
    operation.saved = {q, last, operation.outputs[0], operation.outputs[1]};
    // One block of 512 bytes a step.
    keep_random_state(operation, N(64) * ranks, N(0));
    const char* rule = "context.engine-ring-steps";
    operation.passing = {
        several("keys and values of the other steps", rule, Pile::kCommunication, pair, steps - 1,
                type_),
        several("output of every step", rule, Pile::kTemporary, outputs_, steps, type_),
        several("log-sum-exp of every step", rule, Pile::kTemporary, rows_, steps,
                ElementType::kFloat32)};
    // Two buffers of keys, values and both gradients; one half of one becomes the result.
    const char* backward = "context.engine-ring-backward";
    operation.backward = {kGradient0, kGradient1, kGradient2};
    step_for(operation, several("keys, values and their gradients", backward, Pile::kCommunication,
                                pair, 3, type_));
    step_for(operation,
             several("query gradient of a step", backward, Pile::kTemporary, queries_, 1, type_));
    step_for(operation, several("key and value gradients of a step", backward, Pile::kTemporary,
                                pair, 1, type_));
    add_workspaces(operation, c_.sizes.sequence, c_.sizes.sequence);
    return finish(operation);
  }

  // Keys and values of all ranks, put into the order of the sequence; each rank's two chunks of queries then see as much of
  // them as is causal, and rank 0's second one sees all.
  ValueId engine_gather(ValueId q, ValueId k, ValueId v) {
    const N pair = pair_of(k, v);
    const N whole = pair * c_.sizes.context;
    const char* rule = "context.gathered-keys-values";
    const ValueId gathered =
        graph_.tensor({kOwner, "keys and values of all ranks", rule}, whole, type_, false);
    Operator gather;
    gather.label = "all-gather";
    gather.inputs = {k, v};
    gather.outputs = {gathered};
    gather.forward_exchanges = {{ExchangeKind::kAllGather, Axis::kContext, payload(whole, type_)}};
    gather.passing = {several("keys of all ranks, by ranks", rule, Pile::kTemporary,
                              graph_.elements(k) * c_.sizes.context, 1, type_)};
    graph_.add(gather);
    Operator operation = begin("attention", q, k, v);
    operation.inputs.push_back(gathered);
    operation.backward_exchanges = {
        {ExchangeKind::kAllGather, Axis::kContext, payload(whole, type_)},
        {ExchangeKind::kReduceScatter, Axis::kContext, payload(whole, type_)}};
    operation.saved = {q, k, v, operation.outputs[0], operation.outputs[1]};
    keep_random_state(operation, N(2), N(1));
    operation.passing = {several("outputs of both chunks", "context.engine-gather",
                                 Pile::kTemporary, outputs_, 2, type_),
                         several("queries of a chunk", "context.engine-gather", Pile::kTemporary,
                                 halved(queries_), 1, type_)};
    const char* backward = "context.engine-gather-backward";
    operation.backward = {kGradient0, kGradient1, kGradient2};
    // Gathered again; the sum of their gradients; a step's own, but for what stays.
    step_for(operation,
             several("keys and values of all ranks", rule, Pile::kCommunication, whole, 1, type_));
    step_for(operation, several("their gradients", backward, Pile::kTemporary, whole, 1, type_));
    step_for(operation, several("their gradients of a step", backward, Pile::kTemporary,
                                whole - pair, 1, type_));
    step_for(operation, several("queries and outputs of a chunk", backward, Pile::kTemporary,
                                queries_ + outputs_, 1, type_));
    add_workspaces(operation, halved(c_.sizes.sequence), c_.sizes.sequence * c_.sizes.context);
    return finish(operation);
  }

  // One tensor from parts of the sequence to parts of the heads, or back, by Transformer Engine: what is sent, what comes,
  // and twice a copy in the order of chunks. Gradients come back the same way.
  ValueId engine_exchange(ValueId x, const char* name) {
    const N elements = graph_.elements(x);
    const ValueId y = graph_.tensor({kOwner, name, "context.exchanged"}, elements, type_,
                                    graph_.needs_gradient(x));
    const SlotId buffers = several("all-to-all and its order", "context.exchange-buffers",
                                   Pile::kCommunication, elements, 3, type_);
    Operator operation;
    operation.label = "all-to-all";
    operation.inputs = {x};
    operation.outputs = {y};
    exchange_both_ways(operation, elements);
    operation.passing = {buffers};
    operation.backward = {kGradient0, {BackwardStep::kPassing, 0, buffers}};
    graph_.add(operation);
    return y;
  }

  // DeepSpeed's: a copy by ranks, the all-to-all, and (`reordered`) a copy by heads.
  ValueId sent(ValueId x) {
    const N elements = graph_.elements(x);
    const ValueId by_ranks = pointwise("copy by ranks", x, "by ranks", elements, {kAlias0});
    const SlotId copy = several("gradient, in one piece", "context.ulysses-copies",
                                Pile::kTemporary, elements, 1, type_);
    return pointwise("all-to-all", by_ranks, "from all ranks", elements,
                     {{BackwardStep::kTemporary, 0, copy}, kGradient0}, true);
  }
  ValueId reordered(ValueId x, const char* name) {
    return pointwise("copy by heads", x, name, graph_.elements(x), {kAlias0});
  }
  ValueId repeated(ValueId x, const N& times) {
    return pointwise("repeat", x, "repeated to all ranks", graph_.elements(x) * times,
                     {kGradient0});
  }

 private:
  // Keys and values together.
  N pair_of(ValueId k, ValueId v) const { return graph_.elements(k) + graph_.elements(v); }
  static N halved(const N& size) { return ceil_divide(size, N(2)); }

  // `count` tensors that are rounded one by one.
  SlotId several(const char* name, const char* rule, Pile pile, const N& elements,
                 std::int64_t count, ElementType type) {
    TensorSum tensors = c_.book.tensor_sum();
    tensors.add(allocated_size(bytes_of(Elements(Checked(plain(elements))), type)), count, 0);
    return c_.book.slot_of_tensors({kOwner, name, rule}, pile, N(count) * elements, type,
                                   std::move(tensors));
  }
  static BackwardStep step(SlotId slot) { return {BackwardStep::kTemporary, 0, slot}; }
  static void step_for(Operator& operation, SlotId slot) {
    operation.backward.push_back(step(slot));
  }

  Operator begin(const char* label, ValueId q, ValueId k, ValueId v) {
    const bool efficient = c_.style.attention == AttentionKernel::kEfficient;
    if (efficient) rows_ = c_.sizes.batch * heads_ * round_up(c_.sizes.sequence, N(32));
    Operator operation;
    operation.label = label;
    operation.inputs = {q, k, v};
    operation.outputs = {
        graph_.tensor({kOwner, "output", "op.attention.saved-output"}, outputs_, type_, true),
        graph_.tensor({kOwner, "log-sum-exp", "op.attention.saved-log-sum-exp"}, rows_,
                      ElementType::kFloat32, false)};
    return operation;
  }
  void keep_random_state(Operator& operation, const N& state, const N& offset) {
    const auto keep = [&](const char* name, const N& numbers) {
      if (plain(numbers) == 0) return;
      const ValueId value = graph_.tensor({kOwner, name, "op.flash-attention.random-state"},
                                          numbers, ElementType::kInt64, false);
      operation.outputs.push_back(value);
      operation.saved.push_back(value);
    };
    keep("random state", state);
    keep("random offset", offset);
  }
  void add_workspaces(Operator& operation, const N& queries, const N& keys) {
    for (const BackwardStep& workspace : c_.attention_workspaces(
             heads_, key_value_heads_, query_width_, value_width_, queries, keys))
      operation.backward.push_back(workspace);
  }
  ValueId finish(Operator& operation) {
    // The parts are dealt out so that each rank has its share of a causal half.
    operation.arithmetic = {
        Arithmetic::kAttention,         plain(c_.sizes.sequence),
        plain(query_width_ / heads_),   plain(c_.sizes.sequence * c_.sizes.context),
        plain(c_.sizes.batch * heads_), causal_};
    operation.arithmetic.code = c_.style.attention_code;
    graph_.add(operation);
    return operation.outputs[0];
  }
  ValueId pointwise(const char* label, ValueId x, const char* name, const N& elements,
                    const Few<BackwardStep, 14>& backward, bool exchanges = false) {
    const ValueId y = graph_.tensor({kOwner, name, "context.ulysses-copies"}, elements, type_,
                                    graph_.needs_gradient(x));
    Operator operation;
    operation.label = label;
    operation.inputs = {x};
    operation.outputs = {y};
    operation.backward = backward;
    if (exchanges) exchange_both_ways(operation, elements);
    graph_.add(operation);
    return y;
  }

  static double payload(const N& elements, ElementType type) {
    return Composer<N>::payload_of(elements, type);
  }
  // Every rank has as many elements, before and after.
  void exchange_both_ways(Operator& operation, const N& elements) const {
    const Exchange exchange{ExchangeKind::kAllToAll, Axis::kContext,
                            payload(elements * c_.sizes.context, type_)};
    operation.forward_exchanges = {exchange};
    operation.backward_exchanges = {exchange};
  }

  Composer<N>& c_;
  Graph<N>& graph_;
  ElementType type_;
  N heads_, key_value_heads_, query_width_, value_width_;
  bool causal_;
  N rows_, queries_, outputs_;
};

template <class N>
ValueId Composer<N>::context_attention(ValueId q, ValueId k, ValueId v, const N& heads,
                                       const N& key_value_heads, const N& query_width,
                                       const N& value_width, const CoreAttention& how) {
  const bool ulysses = style.context_method == ContextMethod::kUlysses;
  if (style.context_code == ContextCode::kTorch) {
    if (style.attention == AttentionKernel::kEfficient && plain(heads) != plain(key_value_heads))
      repeat_to_all_heads(k, v, query_width, value_width);
    return ContextAttention<N>(*this, heads, key_value_heads, query_width, value_width, how.causal)
        .torch_ring(q, k, v);
  }
  if (style.context_code == ContextCode::kDeepSpeed) {
    ContextAttention<N> write(*this, heads, key_value_heads, query_width, value_width, how.causal);
    // Fewer key/value heads than ranks: each is repeated until every rank has one.
    const bool repeats = plain(key_value_heads) < style.context;
    const N times = repeats ? sizes.context / key_value_heads : N(1);
    if (repeats) {
      k = write.repeated(k, times);
      v = write.repeated(v, times);
    }
    q = write.sent(q);
    k = write.sent(k);
    v = write.sent(v);
    q = write.reordered(q, "q, whole sequence");
    k = write.reordered(k, "k, whole sequence");
    v = write.reordered(v, "v, whole sequence");
    const ValueId out =
        flash_attention(q, k, v, heads / sizes.context, key_value_heads * times / sizes.context,
                        query_width / sizes.context, value_width / sizes.context,
                        sizes.sequence * sizes.context, how);
    return write.reordered(write.sent(out), "output, in token order");
  }
  if (style.context_method == ContextMethod::kRing)
    return ContextAttention<N>(*this, heads, key_value_heads, query_width, value_width, how.causal)
        .engine_ring(q, k, v, sizes.context);
  ContextAttention<N> write(*this, heads, key_value_heads, query_width, value_width, how.causal);
  if (style.context_method == ContextMethod::kAllGather) return write.engine_gather(q, k, v);
  const N inner = ulysses ? sizes.context : Workbook<N>::symbol("ci", style.context_inner);
  q = write.engine_exchange(q, "q, whole sequence");
  k = write.engine_exchange(k, "k, whole sequence");
  v = write.engine_exchange(v, "v, whole sequence");
  ValueId out = kNoValue;
  if (ulysses) {
    out = flash_attention(q, k, v, heads / inner, key_value_heads / inner, query_width / inner,
                          value_width / inner, sizes.sequence * inner, how);
  } else {
    // The ring sees the inner group's tokens for its part of the heads: as many elements.
    out = ContextAttention<N>(*this, heads, key_value_heads, query_width, value_width, how.causal)
              .engine_ring(q, k, v, sizes.context / inner);
  }
  return write.engine_exchange(out, "output, in token order");
}

template ValueId Composer<Checked>::context_attention(ValueId, ValueId, ValueId, const Checked&,
                                                      const Checked&, const Checked&,
                                                      const Checked&, const CoreAttention&);
template ValueId Composer<Traced>::context_attention(ValueId, ValueId, ValueId, const Traced&,
                                                     const Traced&, const Traced&, const Traced&,
                                                     const CoreAttention&);

}  // namespace steelyard
