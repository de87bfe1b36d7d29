// Experts as transformers 5 runs them: integrations/moe.py, grouped_mm_experts_forward.
//
//   tokens ─sort by expert─ gather h ─ gate·up 2M ─ mask ─ act(gate)·up M ─ down h ─ mask ─ · weight ─ unsort ─ sum
//             order           kept       kept        kept      kept          kept             order
//
// Tokens of experts that stand elsewhere are masked, in every run: each product is followed by a masked copy. Where weights
// are fp32, what they multiply is widened until the sum is cast back.
#include <optional>
#include <utility>
#include <vector>

#include "operators/composer.h"

namespace steelyard {

namespace {
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
        stored_(composer.stored_type(mlp.gate_index >= 0 ? mlp.gate_index : mlp.gate_up_index)),
        // grouped products are not on autocast's lists: they run in the weights' own type
        type_(stored_ && is_quantised(*stored_) ? composer.style.quantised_compute
              : stored_                         ? *stored_
              : composer.style.autocast         ? ElementType::kFloat32
                                                : composer.style.compute),
        experts_(Workbook<N>::symbol("E", mlp.experts)),
        pairs_(composer.sizes.tokens * Workbook<N>::symbol("K", mlp.experts_per_token)),
        width_(Workbook<N>::symbol("M", mlp.width) / composer.sizes.tensor) {}

  ValueId write(ValueId x, ValueId weights, ValueId indices) {
    const N& hidden = c_.sizes.hidden;
    // The adapter of the last product lies around that of the first.
    if (mlp_.down_adapter)
      down_factors_ =
          c_.expert_factors(kOwner, *mlp_.down_adapter, experts_, width_, hidden, type_);
    if (mlp_.gate_up_adapter)
      gate_up_factors_ =
          c_.expert_factors(kOwner, *mlp_.gate_up_adapter, experts_, hidden, N(2) * width_, type_);
    sorted_ = integers("experts in order", indices);
    const ValueId permutation = integers("order of the pairs", indices);
    const ValueId token = integers("token of each pair", permutation);
    ValueId gathered = index(x, token, {kOwner, "gathered input", "op.experts.gathered-input"},
                             pairs_ * hidden, graph_.type(x));
    gathered =
        c_.cast(gathered, type_, {kOwner, "gathered input, cast", "op.experts.gathered-input"});
    const ValueId weight = index(weights, permutation, {kOwner, "weights in order", kOrder}, pairs_,
                                 graph_.type(weights));
    const ValueId narrow = made("experts in order, 32 bits", sorted_, pairs_, ElementType::kInt32);
    const ValueId counted = made("pairs of each expert", narrow, experts_, ElementType::kInt32);
    offsets_ = made("ends of the experts", counted, experts_, ElementType::kInt32);
    mask_ = made("pairs of experts elsewhere", sorted_, pairs_, ElementType::kBool);
    const ValueId input = graph_.view(gathered, graph_.elements(gathered));
    masks_in_place(gathered, input);

    const ValueId inner = feed(input);
    const N matrix = experts_ * hidden * width_;
    const ValueId down_biases = biases(mlp_.down_bias_index, hidden);
    if (biases_ != kNoValue) graph_.hold(biases_);
    const ValueId output =
        masked(biased(product(inner, {mlp_.down_index}, {matrix}, "expert output", pairs_ * hidden,
                              adapted(down_factors_)),
                      down_biases),
               "expert output, masked");

    const N elements = pairs_ * hidden;
    const ElementType weighted_type = wider(graph_.type(output), graph_.type(weight));
    const ValueId weighted = graph_.tensor(
        {kOwner, "weighted output", "op.experts.weighted-output"}, elements, weighted_type, true);
    const SlotName unreduced{kOwner, "gradient of the weights, unreduced",
                             "op.multiply.broadcast-backward"};
    const SlotName uncast{kOwner, "gradient of the output, fp32", "op.multiply.broadcast-backward"};
    Operator weigh;
    weigh.label = "weigh";
    weigh.inputs = {output, weight};
    weigh.outputs = {weighted};
    // Of a first layer beside adapters: nobody asks for the gradient of either.
    if (graph_.needs_gradient(weight)) weigh.saved.push_back(output);
    if (graph_.needs_gradient(output)) weigh.saved.push_back(weight);
    weigh.backward = {
        {BackwardStep::kTemporary, 0, graph_.temporary(unreduced, elements, weighted_type)}};
    if (weighted_type != graph_.type(output)) {
      weigh.backward.push_back(
          {BackwardStep::kTemporary, 0, graph_.temporary(uncast, elements, weighted_type)});
      weigh.backward.push_back(kGradient1);
      weigh.backward.push_back(kGradient0);
    } else {
      weigh.backward.push_back(kGradient0);
      weigh.backward.push_back(kGradient1);
    }
    graph_.add(weigh);
    const ValueId back = integers("order of the tokens", permutation);
    const ValueId unsorted = index(weighted, back, {kOwner, "weighted output, by token", kOrder},
                                   elements, weighted_type);
    const ValueId total = graph_.tensor({kOwner, "sum over experts", "op.experts.sum"},
                                        c_.sizes.tokens * hidden, weighted_type, true);
    Operator add_up;
    add_up.label = "sum over experts";
    add_up.inputs = {unsorted};
    add_up.outputs = {total};
    add_up.backward = {kGradient0};
    graph_.add(add_up);
    const ValueId sum =
        c_.cast(total, graph_.type(x), {kOwner, "sum over experts, cast", "op.experts.sum"});
    // Names of the function's own, until it returns; of experts that train most of them are kept anyway.
    for (ValueId local : {sorted_, unsorted, total, narrow, counted, offsets_, permutation, input,
                          weight, mask_, output, back})
      graph_.hold(local);
    for (ValueId whole : adapted_) graph_.hold(whole);
    for (const auto* factors : {&gate_up_factors_, &down_factors_})
      if (*factors) {
        graph_.hold((*factors)->up);
        graph_.hold((*factors)->down);
      }
    return sum;
  }

 private:
  // Weights with what an adapter adds to them, until the outermost adapter has run.
  ValueId adapted(const std::optional<typename Composer<N>::ExpertFactors>& factors) {
    if (!factors) return kNoValue;
    adapted_.push_back(c_.with_expert_factors(*factors));
    return adapted_.back();
  }

  // act(gate) · up, or the activation alone.
  ValueId feed(ValueId input) {
    const N& hidden = c_.sizes.hidden;
    const N matrix = experts_ * hidden * width_;
    const bool packed = mlp_.gate_up_index >= 0;
    biases_ = biases(mlp_.gate_up_bias_index, N(2) * width_);
    const ValueId both =
        masked(biased(product(input,
                              packed ? Few<int, 2>{mlp_.gate_up_index}
                                     : Few<int, 2>{mlp_.gate_index, mlp_.up_index},
                              packed ? Few<N, 2>{N(2) * matrix} : Few<N, 2>{matrix, matrix},
                              "gate and up", pairs_ * N(2) * width_, adapted(gate_up_factors_)),
                      biases_),
               "gate and up, masked");
    if (mlp_.activation == Activation::kClampedSwiglu)
      return clamped(every_other("gate", both), every_other("up", both));
    const std::vector<ValueId> parts = c_.split(both, {pairs_ * width_, pairs_ * width_}, kOwner);
    const ValueId activated = c_.activate(parts[0], mlp_.activation, kOwner);
    return c_.multiply(activated, parts[1], {kOwner, "act(gate)·up", "op.multiply.output"});
  }

  // gpt_oss: (clamp(up) + 1) * (clamp(gate) * sigmoid(1.702 clamp(gate))), each term its own operator.
  ValueId clamped(ValueId gate, ValueId up) {
    const char* rule = "op.clamped-swiglu.saved-factors";
    gate = c_.pointwise("clamp", gate, {kOwner, "gate, clamped", rule}, {.input = true});
    up = c_.pointwise("clamp", up, {kOwner, "up, clamped", rule}, {.input = true});
    const ValueId inner = c_.scale(gate, {kOwner, "1.702 gate", "op.scale"});
    const ValueId sigmoid =
        c_.pointwise("sigmoid", inner, {kOwner, "sigmoid(1.702 gate)", "op.sigmoid.saved-output"},
                     {.output = true});
    const ValueId activated = c_.multiply(gate, sigmoid, {kOwner, "activated gate", rule});
    const ValueId raised = c_.scale(up, {kOwner, "up + 1", rule});
    return c_.multiply(raised, activated, {kOwner, "act(gate)·up", "op.multiply.output"});
  }

  // A strided view, whose gradient is a whole of zeros with the view's copied in.
  ValueId every_other(const char* label, ValueId x) {
    const ValueId y = graph_.view(x, pairs_ * width_);
    Operator operation;
    operation.label = label;
    operation.inputs = {x};
    operation.outputs = {y};
    operation.backward = {kGradient0};
    graph_.add(operation);
    return y;
  }

  static ElementType wider(ElementType a, ElementType b) {
    return bits_of(a) >= bits_of(b) ? a : b;
  }

  ValueId integers(const char* name, ValueId from) {
    return made(name, from, pairs_, ElementType::kInt64);
  }

  ValueId made(const char* name, ValueId from, const N& elements, ElementType type) {
    const ValueId y = graph_.tensor({kOwner, name, kOrder}, elements, type, false);
    Operator operation;
    operation.label = name;
    operation.inputs = {from};
    operation.outputs = {y};
    graph_.add(operation);
    return y;
  }

  // The input is masked where it stands; its gradient is a masked copy.
  void masks_in_place(ValueId x, ValueId y) {
    Operator operation;
    operation.label = "masked fill";
    operation.inputs = {x, mask_};
    operation.outputs = {y};
    operation.saved = {mask_};
    operation.backward = {kGradient0};
    graph_.add(operation);
  }

  // The bias of its expert for each pair; its gradient is summed back by the experts in order.
  ValueId biases(int index, const N& width) {
    if (index < 0) return kNoValue;
    const ValueId rows = graph_.tensor({kOwner, "bias of each pair", "op.experts.bias-rows"},
                                       pairs_ * width, type_, c_.has_gradient(index));
    Operator operation;
    operation.label = "index";
    operation.inputs = {sorted_};
    operation.outputs = {rows};
    operation.saved = {sorted_};
    operation.backward = {
        {BackwardStep::kParameterGradient, c_.uncast_parameter(index, experts_ * width), -1}};
    graph_.add(operation);
    return rows;
  }

  ValueId biased(ValueId x, ValueId rows) {
    if (rows == kNoValue) return x;
    const ValueId y = graph_.view(x, graph_.elements(x));
    Operator operation;
    operation.label = "add in place";
    operation.inputs = {x, rows};
    operation.outputs = {y};
    operation.backward = {{BackwardStep::kAliasGradient, 0, -1},
                          {BackwardStep::kAliasGradient, 1, -1}};
    graph_.add(operation);
    return y;
  }

  // What one grouped product of 16 bits asks for: 60 bytes of arguments for each expert, and 512 bytes of tensor maps for
  // each multiprocessor.
  SlotId workspace() {
    const N arguments = N(60) * experts_;
    const N maps = N(512) * N(c_.style.multiprocessors);
    const auto rounded = [](const N& bytes) {
      return allocated_size(bytes_of(Elements(Checked(plain(bytes))), ElementType::kInt8));
    };
    TensorSum both = c_.book.tensor_sum();
    both.add(rounded(arguments), 1, 0);
    both.add(rounded(maps), 1, 0);
    return c_.book.slot_of_tensors(
        {kOwner, "workspace of a grouped product", "op.experts.workspace"}, Pile::kTemporary,
        arguments + maps, ElementType::kInt8, std::move(both));
  }

  // A parametrised tensor is made in 16 bits whenever it is read, all of it, and autograd keeps what the product has read
  // (axolotl monkeypatch/moe_quant.py; bitsandbytes nn/parametrize.py; torch.nn.utils.parametrize).
  void use_whole(Operator& operation, const Few<N, 2>& elements) {
    for (const N& each : elements) {
      const ValueId weight =
          c_.made("dequantise", {}, {kOwner, "weights, dequantised", "quantised.whole-experts"},
                  each, type_);
      operation.inputs.push_back(weight);
      operation.saved.push_back(weight);
    }
  }
  // Linear4bit of each expert: a matrix at a time, forward and backward, which keeps nothing but the codes.
  void use_one_by_one(Operator& operation, const Few<N, 2>& elements) {
    const SlotId one = graph_.temporary(
        {kOwner, "weight of one expert, dequantised", "quantised.dequantised-weight"},
        elements[0] / experts_, type_);
    operation.passing.push_back(one);
    operation.backward.push_back({BackwardStep::kPassing, 0, one});
  }

  ValueId index(ValueId x, ValueId order, const SlotName& name, const N& elements,
                ElementType type) {
    return chosen("index", x, order, name, elements, type);
  }

  ValueId product(ValueId x, const Few<int, 2>& weight_indices, const Few<N, 2>& weight_elements,
                  const char* name, const N& elements, ValueId adapted_weight) {
    const ValueId y = graph_.tensor({kOwner, name, "op.linear.output"}, elements, type_, true);
    Operator operation;
    operation.label = "grouped product";
    operation.inputs = {x, offsets_};
    operation.outputs = {y};
    // Products of 32 bits are a loop of ordinary ones.
    const bool in_one_kernel = bits_of(type_) < 32;
    if (in_one_kernel && workspace_ < 0) workspace_ = workspace();
    if (in_one_kernel) operation.passing = {workspace_};
    const BackwardStep needed{BackwardStep::kPassing, 0, workspace_};
    operation.saved = {offsets_};
    const bool quantised = stored_ && is_quantised(*stored_);
    if (quantised && mlp_.gate_index < 0)
      use_whole(operation, weight_elements);
    else if (quantised)
      use_one_by_one(operation, weight_elements);
    bool trains = adapted_weight != kNoValue;
    if (trains) {
      operation.inputs.push_back(adapted_weight);
      operation.saved.push_back(x);
      if (graph_.needs_gradient(x)) operation.saved.push_back(adapted_weight);
      operation.backward.push_back(kGradient2);
    }
    for (std::size_t i = 0; i < weight_indices.size(); ++i) {
      const int gradient = c_.uncast_parameter(weight_indices[i], weight_elements[i]);
      if (gradient < 0) continue;
      if (!trains) operation.saved.push_back(x);
      trains = true;
      operation.backward.push_back({BackwardStep::kParameterGradient, gradient, -1});
    }
    if (trains && in_one_kernel) operation.backward.push_back(needed);
    operation.backward.push_back(kGradient0);
    if (in_one_kernel) operation.backward.push_back(needed);
    // Tokens spread evenly over the experts.
    operation.arithmetic = {Arithmetic::kProduct, plain(ceil_divide(pairs_, experts_)),
                            plain(graph_.elements(x) / pairs_), plain(elements / pairs_),
                            plain(experts_)};
    graph_.add(operation);
    return y;
  }

  ValueId masked(ValueId x, const char* name) {
    return chosen("masked fill", x, mask_, {kOwner, name, "op.experts.masked-copy"},
                  graph_.elements(x), graph_.type(x));
  }

  // What of x is taken, or where to, stands in `by`: backward needs that and nothing of x.
  ValueId chosen(const char* label, ValueId x, ValueId by, const SlotName& name, const N& elements,
                 ElementType type) {
    const ValueId y = graph_.tensor(name, elements, type, graph_.needs_gradient(x));
    Operator operation;
    operation.label = label;
    operation.inputs = {x, by};
    operation.outputs = {y};
    operation.saved = {by};
    operation.backward = {kGradient0};
    graph_.add(operation);
    return y;
  }

  Composer<N>& c_;
  Graph<N>& graph_;
  const ExpertMlp& mlp_;
  std::optional<ElementType> stored_;  // beside adapters
  ElementType type_;
  N experts_, pairs_, width_;
  ValueId sorted_ = kNoValue, offsets_ = kNoValue, mask_ = kNoValue, biases_ = kNoValue;
  SlotId workspace_ = -1;
  std::optional<typename Composer<N>::ExpertFactors> gate_up_factors_, down_factors_;
  std::vector<ValueId> adapted_;
};

template <class N>
ValueId Composer<N>::grouped_experts(ValueId x, ValueId weights, ValueId indices,
                                     const ExpertMlp& mlp) {
  return GroupedExperts<N>(*this, mlp).write(x, weights, indices);
}

template ValueId Composer<Checked>::grouped_experts(ValueId, ValueId, ValueId, const ExpertMlp&);
template ValueId Composer<Traced>::grouped_experts(ValueId, ValueId, ValueId, const ExpertMlp&);

}  // namespace steelyard
