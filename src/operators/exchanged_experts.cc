// Experts as torchtitan runs them (models/common/moe.py, token_dispatcher.py): pairs sorted by expert, sent to the ranks
// that hold the experts, put into the order of the local experts, three grouped products, and the same way back. The
// weight multiplies an fp32 copy of what comes back, which it keeps.
//
//   T·K h ─all-to-all─ R h ─in order─ R h ─ gate M, silu M, up M, product M ─ R h ─back─ R h ─all-to-all─ T·K h · weight
#include <algorithm>

#include "operators/composer.h"
#include "operators/expert_pairs.h"

namespace steelyard {

namespace {
constexpr const char* kOwner = "mlp.experts";
}  // namespace

template <class N>
class ExchangedExperts {
 public:
  ExchangedExperts(Composer<N>& composer, const ExpertMlp& mlp)
      : c_(composer),
        graph_(composer.graph),
        mlp_(mlp),
        type_(composer.style.compute),
        divided_(composer.style.expert > 1),
        // Divided experts take the tokens divided, over the tensor ranks too.
        tokens_(divided_ && !composer.style.sequence_parallel
                    ? composer.sizes.tokens / composer.sizes.tensor
                : divided_ ? composer.sizes.shard_tokens
                           : composer.sizes.tokens),
        pairs_(composer.style, tokens_, mlp),
        experts_(Workbook<N>::symbol("E", mlp.experts) /
                 (divided_ ? Workbook<N>::symbol("e", composer.style.expert) : N(1))),
        width_(Workbook<N>::symbol("M", mlp.width) / (divided_ ? N(1) : composer.sizes.tensor)) {}

  ValueId write(ValueId x, ValueId weights, ValueId indices) {
    const N& hidden = c_.sizes.hidden;
    const N permuted = pairs_.permuted(), received = pairs_.received();
    const ValueId order = integers("order of the pairs", indices, permuted);
    const ValueId weight = moved("weights in order", "op.experts.order", weights, permuted,
                                 ElementType::kFloat32, order);
    const ValueId token = integers("token of each pair", order, permuted);
    ValueId routed =
        moved("gathered input", "op.experts.gathered-input", x, permuted * hidden, type_, token);
    ValueId local = kNoValue;
    if (divided_) {
      routed = exchanged("received input", routed, received * hidden);
      local = integers("order of the local experts", indices, received);
      routed =
          moved("input by expert", "dispatch.by-expert", routed, received * hidden, type_, local);
    }
    const ValueId gate =
        product(routed, mlp_.gate_index >= 0 ? mlp_.gate_index : mlp_.gate_up_index, "gate",
                received * width_, hidden * width_, received);
    const ValueId activated = c_.activate(gate, mlp_.activation, kOwner);
    const ValueId up =
        product(routed, mlp_.up_index, "up", received * width_, hidden * width_, received);
    const ValueId inner =
        c_.multiply(activated, up, {kOwner, "act(gate)·up", "op.multiply.output"});
    ValueId output = product(inner, mlp_.down_index, "expert output", received * hidden,
                             hidden * width_, received);
    if (divided_) {
      output =
          moved("output by rank", "dispatch.by-expert", output, received * hidden, type_, local);
      output = exchanged("returned output", output, permuted * hidden);
    }
    return weighted_sum(output, weight, token, permuted * hidden);
  }

 private:
  ValueId weighted_sum(ValueId output, ValueId weight, ValueId token, const N& elements) {
    const ValueId wide = c_.cast(output, ElementType::kFloat32,
                                 {kOwner, "returned output, fp32", "op.experts.fp32-output"});
    const ValueId product = graph_.tensor({kOwner, "weighted output", "op.experts.weighted-output"},
                                          elements, ElementType::kFloat32, true);
    Operator weigh;
    weigh.label = "weigh";
    weigh.inputs = {wide, weight};
    weigh.outputs = {product};
    weigh.saved = {wide, weight};
    weigh.backward = {{BackwardStep::kTemporary, 0,
                       graph_.temporary({kOwner, "gradient of the weights, unreduced",
                                         "op.multiply.broadcast-backward"},
                                        elements, ElementType::kFloat32)},
                      kGradient1,
                      kGradient0};
    graph_.add(weigh);
    const ValueId narrow =
        c_.cast(product, type_, {kOwner, "weighted output", "op.experts.weighted-output"});
    return moved("sum over experts", "op.experts.sum", narrow, tokens_out(), type_, token);
  }
  // Where experts are divided and the stream is not, the ranks' parts of the sum are gathered again.
  N tokens_out() const { return c_.sizes.shard_tokens * c_.sizes.hidden; }

  ValueId integers(const char* name, ValueId from, const N& count) {
    const ValueId y =
        graph_.tensor({kOwner, name, "op.experts.order"}, count, ElementType::kInt64, false);
    Operator operation;
    operation.label = name;
    operation.inputs = {from};
    operation.outputs = {y};
    graph_.add(operation);
    return y;
  }
  // To the ranks of the experts, or back from them. The fuller side decides: what it gets, or gives.
  ValueId exchanged(const char* name, ValueId x, const N& elements) {
    const double own = std::max(Composer<N>::payload_of(graph_.elements(x), type_),
                                Composer<N>::payload_of(elements, type_));
    return moved(
        name, "dispatch.received", x, elements, type_, kNoValue,
        {{ExchangeKind::kAllToAll, Axis::kExpert, own * static_cast<double>(c_.style.expert)}});
  }
  // Rows in another order, or on another rank; an order is kept.
  ValueId moved(const char* name, const char* rule, ValueId x, const N& elements, ElementType type,
                ValueId order = kNoValue, const Few<Exchange, 3>& exchanges = {}) {
    const ValueId y = graph_.tensor({kOwner, name, rule}, elements, type, true);
    Operator operation;
    operation.label = name;
    operation.inputs = {x};
    operation.outputs = {y};
    if (order != kNoValue) {
      operation.inputs.push_back(order);
      operation.saved = {order};
    }
    operation.backward = {kGradient0};
    operation.forward_exchanges = exchanges;
    operation.backward_exchanges = exchanges;
    graph_.add(operation);
    return y;
  }
  ValueId product(ValueId x, int weight_index, const char* name, const N& elements, const N& matrix,
                  const N& pairs) {
    const ValueId y = graph_.tensor({kOwner, name, "op.linear.output"}, elements, type_, true);
    Operator operation;
    operation.label = "grouped product";
    operation.inputs = {x};
    operation.outputs = {y};
    if (c_.has_gradient(weight_index)) operation.saved = {x};
    if (weight_index >= 0) {
      // gate and up are one tensor in some checkpoints; the gradient of both is made with the first.
      const bool packed = weight_index == mlp_.gate_up_index;
      operation.backward.push_back(
          {BackwardStep::kParameterGradient,
           c_.uncast_parameter(weight_index, experts_ * matrix * N(packed ? 2 : 1)), -1});
    }
    operation.backward.push_back(kGradient0);
    // Pairs spread evenly over the experts that stand here.
    operation.arithmetic = {Arithmetic::kProduct, plain(ceil_divide(pairs, experts_)),
                            plain(graph_.elements(x) / pairs), plain(elements / pairs),
                            plain(experts_)};
    graph_.add(operation);
    return y;
  }

  Composer<N>& c_;
  Graph<N>& graph_;
  const ExpertMlp& mlp_;
  ElementType type_;
  bool divided_;
  N tokens_;
  ExpertPairs<N> pairs_;
  N experts_, width_;
};

template <class N>
ValueId Composer<N>::exchanged_experts(ValueId x, ValueId weights, ValueId indices,
                                       const ExpertMlp& mlp) {
  return ExchangedExperts<N>(*this, mlp).write(x, weights, indices);
}

template ValueId Composer<Checked>::exchanged_experts(ValueId, ValueId, ValueId, const ExpertMlp&);
template ValueId Composer<Traced>::exchanged_experts(ValueId, ValueId, ValueId, const ExpertMlp&);

}  // namespace steelyard
