// Experts as transformers 5 runs them: integrations/moe.py, grouped_mm_experts_forward.
//
//   tokens ─sort by expert─ gather h ─ gate·up 2M ─ mask ─ act(gate)·up M ─ down h ─ mask ─ · weight ─ unsort ─ sum
//             order           kept       kept        kept      kept          kept             order
//
// Tokens of experts that stand elsewhere are masked, in every run: each product is followed by a masked copy. Weights are
// fp32, so what they multiply is widened until the sum is cast back.
#include "operators/composer.h"

namespace steelyard {

namespace {
constexpr BackwardStep kGradient0{BackwardStep::kInputGradient, 0, -1};
constexpr BackwardStep kGradient1{BackwardStep::kInputGradient, 1, -1};
constexpr const char* kOwner = "mlp.experts";
constexpr const char* kOrder = "op.experts.order";
}  // namespace

template <class N>
class GroupedExperts {
 public:
  GroupedExperts(Composer<N>& composer, const ExpertMlp& mlp)
      : c_(composer),
        graph_(composer.graph),
        mlp_(mlp),
        // grouped products are not on autocast's lists: they run in the weights' own type
        type_(composer.style.autocast ? ElementType::kFloat32 : composer.style.compute),
        experts_(Workbook<N>::symbol("E", mlp.experts)),
        pairs_(composer.sizes.tokens * Workbook<N>::symbol("K", mlp.experts_per_token)),
        width_(Workbook<N>::symbol("M", mlp.width) / composer.sizes.tensor) {}

  ValueId write(ValueId x, ValueId weights, ValueId indices) {
    const N& hidden = c_.sizes.hidden;
    const ValueId sorted = integers("experts in order", indices);
    const ValueId permutation = integers("order of the pairs", indices);
    const ValueId token = integers("token of each pair", permutation);
    ValueId gathered = index(x, token, {kOwner, "gathered input", "op.experts.gathered-input"},
                             pairs_ * hidden, graph_.type(x));
    gathered =
        c_.cast(gathered, type_, {kOwner, "gathered input, cast", "op.experts.gathered-input"});
    const ValueId weight = index(weights, permutation, {kOwner, "weights in order", kOrder}, pairs_,
                                 ElementType::kFloat32);
    mask_ = graph_.tensor({kOwner, "pairs of experts elsewhere", kOrder}, pairs_,
                          ElementType::kBool, false);
    Operator compare;
    compare.label = "compare";
    compare.inputs = {sorted};
    compare.outputs = {mask_};
    graph_.add(compare);
    const ValueId input =
        c_.reshaped(gathered, true);  // masked in place; its gradient is a masked copy

    const ValueId inner = feed(input);
    const ValueId output = masked(product(inner, {mlp_.down_index}, {experts_ * hidden * width_},
                                          "expert output", pairs_ * hidden),
                                  "expert output, masked");

    const N elements = pairs_ * hidden;
    const ValueId weighted =
        graph_.tensor({kOwner, "weighted output", "op.experts.weighted-output"}, elements,
                      ElementType::kFloat32, true);
    const SlotName unreduced{kOwner, "gradient of the weights, unreduced",
                             "op.multiply.broadcast-backward"};
    const SlotName uncast{kOwner, "gradient of the output, fp32", "op.multiply.broadcast-backward"};
    Operator weigh;
    weigh.label = "weigh";
    weigh.inputs = {output, weight};
    weigh.outputs = {weighted};
    weigh.saved = {output, weight};
    weigh.backward = {
        {BackwardStep::kTemporary, 0, graph_.temporary(unreduced, elements, ElementType::kFloat32)},
        {BackwardStep::kTemporary, 0, graph_.temporary(uncast, elements, ElementType::kFloat32)},
        kGradient1,
        kGradient0};
    graph_.add(weigh);
    const ValueId back = integers("order of the tokens", permutation);
    const ValueId unsorted = index(weighted, back, {kOwner, "weighted output, by token", kOrder},
                                   elements, ElementType::kFloat32);
    const ValueId total = graph_.tensor({kOwner, "sum over experts, fp32", "op.experts.sum"},
                                        c_.sizes.tokens * hidden, ElementType::kFloat32, true);
    Operator add_up;
    add_up.label = "sum over experts";
    add_up.inputs = {unsorted};
    add_up.outputs = {total};
    add_up.backward = {kGradient0};
    graph_.add(add_up);
    const ValueId sum =
        c_.cast(total, graph_.type(x), {kOwner, "sum over experts", "op.experts.sum"});
    for (ValueId local : {sorted, unsorted, total}) graph_.hold(local);
    return sum;
  }

 private:
  // act(gate) · up, or the activation alone.
  ValueId feed(ValueId input) {
    const N& hidden = c_.sizes.hidden;
    const N matrix = experts_ * hidden * width_;
    const bool packed = mlp_.gate_up_index >= 0;
    const ValueId both =
        masked(product(input,
                       packed ? Few<int, 2>{mlp_.gate_up_index}
                              : Few<int, 2>{mlp_.gate_index, mlp_.up_index},
                       packed ? Few<N, 2>{N(2) * matrix} : Few<N, 2>{matrix, matrix}, "gate and up",
                       pairs_ * N(2) * width_),
               "gate and up, masked");
    const std::vector<ValueId> parts = c_.split(both, {pairs_ * width_, pairs_ * width_}, kOwner);
    if (mlp_.activation == Activation::kClampedSwiglu) return clamped(parts[0], parts[1]);
    const ValueId activated = c_.activate(parts[0], mlp_.activation, kOwner);
    return c_.multiply(activated, parts[1], {kOwner, "act(gate)·up", "op.multiply.output"});
  }

  // gpt_oss: (clamp(up) + 1) * (clamp(gate) * sigmoid(1.702 clamp(gate))), each term its own operator.
  ValueId clamped(ValueId gate, ValueId up) {
    const char* rule = "op.clamped-swiglu.saved-factors";
    gate = c_.pointwise("clamp", gate, {kOwner, "gate, clamped", rule}, true, false);
    up = c_.pointwise("clamp", up, {kOwner, "up, clamped", rule}, true, false);
    const ValueId inner = c_.scale(gate, {kOwner, "1.702 gate", "op.scale"});
    const ValueId sigmoid = c_.pointwise(
        "sigmoid", inner, {kOwner, "sigmoid(1.702 gate)", "op.sigmoid.saved-output"}, false, true);
    const ValueId activated = c_.multiply(gate, sigmoid, {kOwner, "activated gate", rule});
    const ValueId raised = c_.scale(up, {kOwner, "up + 1", rule});
    return c_.multiply(raised, activated, {kOwner, "act(gate)·up", "op.multiply.output"});
  }

  ValueId integers(const char* name, ValueId from) {
    const ValueId y = graph_.tensor({kOwner, name, kOrder}, pairs_, ElementType::kInt64, false);
    Operator operation;
    operation.label = name;
    operation.inputs = {from};
    operation.outputs = {y};
    graph_.add(operation);
    return y;
  }

  ValueId index(ValueId x, ValueId order, const SlotName& name, const N& elements,
                ElementType type) {
    const ValueId y = graph_.tensor(name, elements, type, graph_.needs_gradient(x));
    Operator operation;
    operation.label = "index";
    operation.inputs = {x, order};
    operation.outputs = {y};
    operation.saved = {order};
    operation.backward = {kGradient0};
    graph_.add(operation);
    return y;
  }

  ValueId product(ValueId x, const Few<int, 2>& weight_indices, const Few<N, 2>& weight_elements,
                  const char* name, const N& elements) {
    const ValueId y = graph_.tensor({kOwner, name, "op.linear.output"}, elements, type_, true);
    Operator operation;
    operation.label = "grouped product";
    operation.inputs = {x};
    operation.outputs = {y};
    for (std::size_t i = 0; i < weight_indices.size(); ++i) {
      const int gradient = c_.uncast_parameter(weight_indices[i], weight_elements[i]);
      if (gradient < 0) continue;
      operation.saved = {x};
      operation.backward.push_back({BackwardStep::kParameterGradient, gradient, -1});
    }
    operation.backward.push_back(kGradient0);
    // Tokens spread evenly over the experts.
    operation.arithmetic = {Arithmetic::kProduct, plain(ceil_divide(pairs_, experts_)),
                            plain(graph_.elements(x) / pairs_), plain(elements / pairs_),
                            plain(experts_)};
    graph_.add(operation);
    return y;
  }

  ValueId masked(ValueId x, const char* name) {
    const ValueId y = graph_.tensor({kOwner, name, "op.experts.masked-copy"}, graph_.elements(x),
                                    graph_.type(x), true);
    Operator operation;
    operation.label = "masked fill";
    operation.inputs = {x, mask_};
    operation.outputs = {y};
    operation.saved = {mask_};
    operation.backward = {kGradient0};
    graph_.add(operation);
    return y;
  }

  Composer<N>& c_;
  Graph<N>& graph_;
  const ExpertMlp& mlp_;
  ElementType type_;
  N experts_, pairs_, width_;
  ValueId mask_ = kNoValue;
};

template <class N>
ValueId Composer<N>::grouped_experts(ValueId x, ValueId weights, ValueId indices,
                                     const ExpertMlp& mlp) {
  return GroupedExperts<N>(*this, mlp).write(x, weights, indices);
}

template ValueId Composer<Checked>::grouped_experts(ValueId, ValueId, ValueId, const ExpertMlp&);
template ValueId Composer<Traced>::grouped_experts(ValueId, ValueId, ValueId, const ExpertMlp&);

}  // namespace steelyard
