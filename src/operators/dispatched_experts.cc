// Experts as Megatron runs them (megatron/core/transformer/moe): a router whose scores and choices are spread over all
// experts, a dispatcher that brings tokens to experts, grouped products, and the way back. The weight multiplies inside the
// activation, so that no expert's output is kept.
//
//   all-to-all   T·K h ─ to the experts' ranks ─ R h ─ (of the tensor ranks) ─ by expert ─ R h      kept: the last
//   allgather    all tokens of e·et ranks in one buffer ─ R h of the local experts                  kept: the last
//   experts      gate·up 2M (kept) ─ silu(gate)·up·weight M (kept) ─ h ─ back
#include <algorithm>

#include "operators/composer.h"
#include "operators/expert_pairs.h"

namespace steelyard {

namespace {
constexpr const char* kOwner = "mlp.experts";
constexpr const char* kRouter = "mlp.router";
constexpr const char* kSpread = "op.router.spread";
}  // namespace

template <class N>
class DispatchedExperts {
 public:
  DispatchedExperts(Composer<N>& composer, const ExpertMlp& mlp)
      : c_(composer),
        graph_(composer.graph),
        mlp_(mlp),
        type_(composer.style.compute),
        score_type_(mlp.router_in_float32 ? ElementType::kFloat32 : composer.style.compute),
        tokens_(composer.sizes.shard_tokens),
        all_experts_(Workbook<N>::symbol("E", mlp.experts)),
        expert_ranks_(composer.style.expert > 1 ? Workbook<N>::symbol("e", composer.style.expert)
                                                : N(1)),
        cut_(composer.style.expert_tensor == 1 ? N(1)
             : composer.style.expert_tensor == composer.style.tensor
                 ? composer.sizes.tensor
                 : Workbook<N>::symbol("et", composer.style.expert_tensor)),
        experts_(all_experts_ / expert_ranks_),
        width_(Workbook<N>::symbol("M", mlp.width) / cut_),
        // Without sequence parallelism every tensor rank has all tokens already.
        joined_(composer.style.tensor > 1 && !composer.style.sequence_parallel ? N(1) : cut_),
        pairs_(composer.style, tokens_, mlp) {}

  ValueId write(ValueId x) {
    const int begin = c_.position();
    // Before the router, where nothing overlaps it with the dispatcher.
    const ValueId shared = mlp_.shared ? c_.shared_expert(x, mlp_, tokens_) : kNoValue;
    route(x);
    graph_.enter(LayerPart::kExperts);
    ValueId sum =
        c_.style.experts.dispatcher == ExpertDispatcher::kAllToAll ? all_to_all(x) : all_gather(x);
    if (shared != kNoValue) sum = c_.add(sum, shared, {"mlp", "output", "op.add"});
    if (c_.recomputed.mlp) c_.recompute_from(begin);
    return sum;
  }

 private:
  // --- the router (moe_utils.py, topk_routing_with_score_function, not fused)
  void route(ValueId x) {
    const N each = tokens_ * all_experts_;
    const N chosen = tokens_ * Workbook<N>::symbol("K", mlp_.experts_per_token);
    const ValueId logits =
        graph_.tensor({kRouter, "logits", "op.linear.output"}, each, score_type_, true);
    Operator gate;
    gate.label = "router";
    gate.inputs = {x};
    gate.outputs = {logits};
    gate.saved = {x};
    if (bits_of(score_type_) > bits_of(type_)) {
      // In fp32 its backward widens the input and narrows the input's gradient.
      const SlotId wide =
          graph_.temporary({kRouter, "fp32 copies of the hidden states", "op.router.fp32-backward"},
                           N(2) * tokens_ * c_.sizes.hidden, score_type_);
      gate.backward.push_back({BackwardStep::kTemporary, 0, wide});
    }
    gate.backward.push_back({BackwardStep::kParameterGradient,
                             c_.parameter(mlp_.router.weight_index, c_.sizes.hidden * all_experts_),
                             -1});
    gate.backward.push_back(kGradient0);
    gate.arithmetic = {Arithmetic::kProduct, plain(each / all_experts_), plain(c_.sizes.hidden),
                       plain(all_experts_)};
    graph_.add(gate);

    ValueId scores = logits;
    if (mlp_.sigmoid_scores)
      scores = c_.pointwise(
          "sigmoid",
          c_.cast(logits, ElementType::kFloat32, {kRouter, "fp32 logits", "op.softmax.fp32-input"}),
          {kRouter, "scores", "op.sigmoid.saved-output"}, {.output = true});
    ValueId weights =
        graph_.tensor({kRouter, "chosen weights", "op.top-k.output"}, chosen, score_type_, true);
    const ValueId indices = graph_.tensor({kRouter, "chosen experts", "op.top-k.saved-indices"},
                                          chosen, ElementType::kInt64, false);
    Operator choose;
    choose.label = "top k";
    choose.inputs = {scores};
    choose.outputs = {weights, indices};
    choose.saved = {indices};
    choose.backward = {kGradient0};
    graph_.add(choose);
    weights = mlp_.sigmoid_scores
                  ? c_.pointwise("normalise", weights,
                                 {kRouter, "weights that sum to one", "op.softmax.saved-output"},
                                 {.input = true, .output = true})
                  : c_.pointwise("softmax", weights,
                                 {kRouter, "weights that sum to one", "op.softmax.saved-output"},
                                 {.output = true});
    probabilities_ =
        graph_.tensor({kRouter, "weights over all experts", kSpread}, each, score_type_, true);
    map_ = graph_.tensor({kRouter, "choices over all experts", kSpread}, each, ElementType::kBool,
                         false);
    Operator spread;
    spread.label = "scatter";
    spread.inputs = {weights, indices};
    spread.outputs = {probabilities_, map_};
    spread.saved = {indices};
    spread.passing = {graph_.temporary({kRouter, "choices, int32, twice", kSpread}, N(2) * each,
                                       ElementType::kInt32)};
    spread.backward = {kGradient0};
    graph_.add(spread);
  }

  // --- token_dispatcher.py, MoEAlltoAllTokenDispatcher
  ValueId all_to_all(ValueId x) {
    const N& hidden = c_.sizes.hidden;
    const N permuted = pairs_.permuted(), received = pairs_.received(), joined = received * joined_;
    const bool exchanges = c_.style.expert > 1, joins = plain(joined_) > 1,
               sorts = plain(experts_) > 1;
    permute(x, probabilities_, map_, permuted, tokens_ * all_experts_);
    ValueId rows = rows_, weights = weights_;
    if (exchanges) {
      rows = exchanged("received input", rows, received * hidden, type_);
      weights = exchanged("received weights", weights, received, score_type_);
    }
    if (joins) {
      rows = joined_ranks("input of the tensor ranks", "dispatch.joined", rows, joined * hidden,
                          type_, Axis::kTensor);
      weights = joined_ranks("weights of the tensor ranks", "dispatch.joined", weights, joined,
                             score_type_, Axis::kTensor);
    }
    if (sorts) {
      rows = moved("input by expert", "dispatch.by-expert", rows, joined * hidden, type_);
      weights = moved("weights by expert", "dispatch.by-expert", weights, joined, score_type_);
    }
    ValueId output = feed(rows, weights, joined);
    if (sorts)
      output = moved("output by rank", "dispatch.by-expert", output, joined * hidden, type_);
    if (joins) output = scattered(output, received * hidden, Axis::kTensor);
    if (exchanges) output = exchanged("returned output", output, permuted * hidden, type_);
    return unpermute(output, tokens_ * hidden);
  }

  // --- token_dispatcher.py, MoEAllGatherTokenDispatcher
  ValueId all_gather(ValueId x) {
    const N& hidden = c_.sizes.hidden;
    const N ranks = expert_ranks_ * joined_;
    const N all = tokens_ * ranks;  // tokens of all these ranks
    const bool gathers = plain(ranks) > 1;
    ValueId tokens = x, probabilities = probabilities_, map = map_;
    if (gathers) {
      map = joined_ranks("choices of all ranks", "dispatch.gathered", map, all * all_experts_,
                         ElementType::kBool, Axis::kExpert);
      probabilities = joined_ranks("weights of all ranks", "dispatch.gathered", probabilities,
                                   all * all_experts_, score_type_, Axis::kExpert);
      // The tokens themselves lie in a buffer that all layers use: Megatron's loop holds it (engine/megatron_loop.h).
      tokens = graph_.view(x, all * hidden);
      Operator gather;
      gather.label = "all-gather";
      gather.inputs = {x};
      gather.outputs = {tokens};
      gather.backward = {kGradient0};
      join(gather, all * hidden, type_, Axis::kExpert);
      graph_.add(gather);
    }
    const N local = all * experts_;
    if (gathers) {
      map = moved("choices of local experts", "dispatch.gathered", map, local, ElementType::kBool);
      probabilities =
          moved("weights of local experts", "dispatch.gathered", probabilities, local, score_type_);
    }
    const N received =
        pairs_.scaled(tokens_ * Workbook<N>::symbol("K", mlp_.experts_per_token)) * joined_;
    permute(tokens, probabilities, map, received, local);
    ValueId output = unpermute(feed(rows_, weights_, received), all * hidden);
    if (gathers) output = scattered(output, tokens_ * hidden, Axis::kExpert);
    return output;
  }

  // Pairs sorted by expert, with a mask over all (moe_utils.py, permute, not fused).
  void permute(ValueId x, ValueId probabilities, ValueId map, const N& pairs,
               const N& mask_elements) {
    const ValueId mask = graph_.tensor({kOwner, "choices by expert", "dispatch.mask"},
                                       mask_elements, ElementType::kBool, false);
    order_ = graph_.tensor({kOwner, "token of each pair", "op.experts.order"}, pairs,
                           ElementType::kInt64, false);
    Operator sort;
    sort.label = "sort by expert";
    sort.inputs = {map};
    sort.outputs = {mask, order_};
    graph_.add(sort);
    const ValueId by_expert =
        c_.copy(probabilities, {kOwner, "weights over experts, by expert", "dispatch.mask"});
    weights_ = graph_.tensor({kOwner, "weight of each pair", "dispatch.permuted"}, pairs,
                             score_type_, true);
    Operator select;
    select.label = "select";
    select.inputs = {by_expert, mask};
    select.outputs = {weights_};
    select.saved = {by_expert, mask};
    select.backward = {kGradient0};
    graph_.add(select);
    rows_ = graph_.tensor({kOwner, "permuted input", "dispatch.permuted"}, pairs * c_.sizes.hidden,
                          type_, true);
    Operator gather;
    gather.label = "permute";
    gather.inputs = {x, order_};
    gather.outputs = {rows_};
    gather.saved = {order_};
    gather.backward = {kGradient0};
    graph_.add(gather);
  }
  ValueId unpermute(ValueId output, const N& elements) {
    const ValueId sum =
        graph_.tensor({kOwner, "sum over experts", "op.experts.sum"}, elements, type_, true);
    Operator add_up;
    add_up.label = "sum over experts";
    add_up.inputs = {output, order_};
    add_up.outputs = {sum};
    add_up.saved = {order_};
    add_up.backward = {kGradient0};
    graph_.add(add_up);
    return sum;
  }
  // Added up over ranks in the type of the weights, and cast back.
  ValueId scattered(ValueId x, const N& elements, Axis axis) {
    const char* rule = "dispatch.scattered";
    x = c_.cast(x, score_type_, {kOwner, "output before its sum", rule});
    const ValueId y =
        graph_.tensor({kOwner, "output of this rank", rule}, elements, score_type_, true);
    Operator operation;
    operation.label = "reduce-scatter";
    operation.inputs = {x};
    operation.outputs = {y};
    const double whole = Composer<N>::payload_of(graph_.elements(x), score_type_);
    operation.forward_exchanges = {{ExchangeKind::kReduceScatter, axis, whole}};
    operation.backward_exchanges = {{ExchangeKind::kAllGather, axis, whole}};
    operation.backward = {kGradient0};
    graph_.add(operation);
    return c_.cast(y, type_, {kOwner, "output of this rank", rule});
  }

  // --- experts.py, TEGroupedMLP
  ValueId feed(ValueId rows, ValueId weights, const N& pairs) {
    const N& hidden = c_.sizes.hidden;
    const N matrix = experts_ * hidden * width_;
    if (!mlp_.gated) return feed_without_gate(rows, weights, pairs, matrix);
    const bool packed = mlp_.gate_up_index >= 0;
    const ValueId both = product(
        rows,
        packed ? Few<int, 2>{mlp_.gate_up_index} : Few<int, 2>{mlp_.gate_index, mlp_.up_index},
        packed ? Few<N, 2>{N(2) * matrix} : Few<N, 2>{matrix, matrix}, "gate and up",
        pairs * N(2) * width_, pairs);
    const ValueId inner =
        graph_.tensor({kOwner, "silu(gate)·up·weight", "op.experts.weighted-activation"},
                      pairs * width_, type_, true);
    const int begin = c_.position();
    const ValueId halves =
        mlp_.activation == Activation::kClampedSwiglu ? clamped(both, pairs) : both;
    Operator activate;
    activate.label = "weighted swiglu";
    activate.inputs = {halves, weights};
    activate.outputs = {inner};
    activate.saved = {halves, weights};
    activate.backward = {kGradient0, kGradient1};
    graph_.add(activate);
    if (c_.recomputed.activation) c_.recompute_from(begin, true);
    const ValueId output =
        product(inner, {mlp_.down_index}, {matrix}, "expert output", pairs * hidden, pairs);
    return mlp_.expert_biases ? biased(output, weights, pairs * hidden) : output;
  }
  // experts.py, TEGroupedMLP.forward, bias_act_func: what no fused kernel takes is an activation, a product with the weights
  // in their type, and a cast back.
  ValueId feed_without_gate(ValueId rows, ValueId weights, const N& pairs, const N& matrix) {
    const ValueId up = product(rows, {mlp_.up_index}, {matrix}, "up", pairs * width_, pairs);
    const int begin = c_.position();
    const ValueId activated = c_.pointwise(
        "activation", up, {kOwner, "act(up)", "op.fused-activation.saved-input"}, {.input = true});
    const ElementType wide = bits_of(score_type_) > bits_of(type_) ? score_type_ : type_;
    ValueId inner =
        graph_.tensor({kOwner, "act(up)·weight", "op.multiply.output"}, pairs * width_, wide, true);
    Operator weigh;
    weigh.label = "weigh";
    weigh.inputs = {activated, weights};
    weigh.outputs = {inner};
    weigh.saved = {activated, weights};
    weigh.backward = {{BackwardStep::kTemporary, 0,
                       graph_.temporary({kOwner, "gradient of the weights, unreduced",
                                         "op.multiply.broadcast-backward"},
                                        pairs * width_, wide)},
                      kGradient1,
                      kGradient0};
    graph_.add(weigh);
    inner = c_.cast(inner, type_, {kOwner, "act(up)·weight", "op.multiply.output"});
    if (c_.recomputed.activation) c_.recompute_from(begin, true);
    const ValueId output = product(inner, {mlp_.down_index}, {matrix}, "expert output",
                                   pairs * c_.sizes.hidden, pairs);
    return mlp_.expert_biases ? biased(output, weights, pairs * c_.sizes.hidden) : output;
  }
  // fused_bias_geglu.py, weighted_bias_quick_geglu_impl: both halves are clamped and joined again in front of the kernel.
  ValueId clamped(ValueId both, const N& pairs) {
    const char* rule = "op.experts.clamped-halves";
    const N elements = pairs * N(2) * width_;
    const ValueId joined =
        graph_.tensor({kOwner, "gate and up, clamped", rule}, elements, type_, true);
    Operator clamp;
    clamp.label = "clamp";
    clamp.inputs = {both};
    clamp.outputs = {joined};
    clamp.saved = {both};
    clamp.passing = {graph_.temporary({kOwner, "clamped halves", rule}, elements, type_)};
    clamp.backward = {
        {BackwardStep::kTemporary, 0,
         graph_.temporary({kOwner, "gradients of both halves", rule}, elements, type_)},
        kGradient0};
    graph_.add(clamp);
    return joined;
  }
  // experts.py, _apply_bias: of each expert its rows plus its bias times their weights, joined again.
  ValueId biased(ValueId x, ValueId weights, const N& elements) {
    const char* rule = "op.experts.weighted-bias";
    const ElementType wide = bits_of(score_type_) > bits_of(type_) ? score_type_ : type_;
    ValueId y = graph_.tensor({kOwner, "output with its bias", rule}, elements, wide, true);
    Operator add;
    add.label = "weighted bias";
    add.inputs = {x, weights};
    add.outputs = {y};
    add.saved = {weights};
    add.passing = {graph_.temporary({kOwner, "sums of each expert", rule}, elements, wide)};
    add.backward = {{BackwardStep::kParameterGradient,
                     c_.parameter(mlp_.down_bias_index, experts_ * c_.sizes.hidden), -1},
                    {BackwardStep::kTemporary, 0,
                     graph_.temporary({kOwner, "gradients by expert", rule},
                                      ceil_divide(elements, experts_), wide)},
                    kGradient1,
                    kGradient0};
    graph_.add(add);
    return c_.cast(y, type_, {kOwner, "output with its bias", rule});
  }
  ValueId product(ValueId x, const Few<int, 2>& weight_indices, const Few<N, 2>& weight_elements,
                  const char* name, const N& elements, const N& pairs) {
    const ValueId y = graph_.tensor({kOwner, name, "op.linear.output"}, elements, type_, true);
    Operator operation;
    operation.label = "grouped product";
    operation.inputs = {x};
    operation.outputs = {y};
    // Pairs spread evenly over the experts that stand here.
    operation.arithmetic = {Arithmetic::kProduct, plain(ceil_divide(pairs, experts_)),
                            plain(graph_.elements(x) / pairs), plain(elements / pairs),
                            plain(experts_)};
    for (std::size_t i = 0; i < weight_indices.size(); ++i) {
      const int gradient = c_.uncast_parameter(weight_indices[i], weight_elements[i]);
      if (gradient < 0) continue;
      if (operation.saved.empty()) {
        c_.keep_input(operation, x, kOwner);
        c_.quantise_gradient(operation, kOwner, elements);
      }
      operation.backward.push_back({BackwardStep::kParameterGradient, gradient, -1});
    }
    operation.backward.push_back(kGradient0);
    graph_.add(operation);
    return y;
  }

  // To the ranks of the experts, or back from them. The fuller side decides: what it gets, or gives.
  ValueId exchanged(const char* name, ValueId x, const N& elements, ElementType type) {
    const double own = std::max(Composer<N>::payload_of(graph_.elements(x), type),
                                Composer<N>::payload_of(elements, type));
    const Exchange exchange{ExchangeKind::kAllToAll, Axis::kExpert,
                            own * static_cast<double>(c_.style.expert)};
    return moved(name, "dispatch.received", x, elements, type, [&](Operator& operation) {
      operation.forward_exchanges = {exchange};
      operation.backward_exchanges = {exchange};
    });
  }
  // What all of these ranks have; backward adds up its gradients and leaves each its own.
  ValueId joined_ranks(const char* name, const char* rule, ValueId x, const N& elements,
                       ElementType type, Axis axis) {
    return moved(name, rule, x, elements, type,
                 [&](Operator& operation) { join(operation, elements, type, axis); });
  }
  void join(Operator& operation, const N& elements, ElementType type, Axis axis) const {
    const double whole = Composer<N>::payload_of(elements, type);
    operation.forward_exchanges = {{ExchangeKind::kAllGather, axis, whole}};
    operation.backward_exchanges = {{ExchangeKind::kReduceScatter, axis, whole}};
  }

  // Rows in another order, or with `exchanges` on another rank; what goes the other way in backward is as large as what
  // came.
  ValueId moved(const char* name, const char* rule, ValueId x, const N& elements,
                ElementType type) {
    return moved(name, rule, x, elements, type, [](Operator&) {});
  }
  template <class Exchanges>
  ValueId moved(const char* name, const char* rule, ValueId x, const N& elements, ElementType type,
                const Exchanges& exchanges) {
    const ValueId y = graph_.tensor({kOwner, name, rule}, elements, type, graph_.needs_gradient(x));
    Operator operation;
    operation.label = name;
    operation.inputs = {x};
    operation.outputs = {y};
    operation.backward = {kGradient0};
    exchanges(operation);
    graph_.add(operation);
    return y;
  }

  Composer<N>& c_;
  Graph<N>& graph_;
  const ExpertMlp& mlp_;
  ElementType type_, score_type_;
  N tokens_, all_experts_, expert_ranks_, cut_, experts_, width_, joined_;
  ExpertPairs<N> pairs_;
  ValueId probabilities_ = kNoValue, map_ = kNoValue;
  ValueId rows_ = kNoValue, weights_ = kNoValue, order_ = kNoValue;
};

template <class N>
ValueId Composer<N>::dispatched_experts(ValueId x, const ExpertMlp& mlp) {
  return DispatchedExperts<N>(*this, mlp).write(x);
}

template ValueId Composer<Checked>::dispatched_experts(ValueId, const ExpertMlp&);
template ValueId Composer<Traced>::dispatched_experts(ValueId, const ExpertMlp&);

}  // namespace steelyard
