// The losses of multi-token prediction: one for each module, beside the model's own.
#include <algorithm>

#include "operators/loss_writer.h"

namespace steelyard {

// Each module's logits and loss, then the model's own. A module's loss comes into backward beside the hidden states of the
// model (MTPLossAutoScaler); gradients of one weight wait for one another.
template <class N>
ValueId LossWriter<N>::of_all_depths(ValueId x, ValueId labels, ValueId ids, const N& width) {
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
// another graph's, too. `transposed`: products of torch's own give views, and the first sum is a new tensor.
template <class N>
std::vector<int> LossWriter<N>::summed(std::size_t uses, bool leaves, const N& elements,
                                       const ParameterTensor& weight, bool transposed) {
  if (!weight.gradient) return std::vector<int>(uses, -1);
  std::vector<int> parameters;
  SlotId first = -1;
  for (std::size_t use = 0; use < uses; ++use) {
    GradientSlots slots = c_.gradient_slots(
        {weight.name.c_str(), "gradient", "autograd.parameter-gradient"}, elements);
    slots.waits = leaves || use + 1 < uses;
    slots.waiting = first;
    slots.waiting_was_cast = !transposed || use != 1;  // the sum is made in place
    if (use == 0) first = slots.kept;
    if (!slots.waits) c_.step_at_once(slots, weight, elements);
    parameters.push_back(graph_.parameter(slots));
  }
  return parameters;
}

// The mask x the loss of each token, scaled, divided by how many count.
template <class N>
ValueId LossWriter<N>::loss_of_depth(ValueId hidden, const N& width) {
  const auto of_tokens = [&](const char* name, ElementType type) {
    return c_.made("roll", {}, {"mtp", name, "megatron.prediction-loss"}, c_.sizes.tokens, type);
  };
  const ValueId logits = project(c_.gathered(hidden, width, "head"), width);
  if (logits_of_depth_ != kNoValue) graph_.hold(logits_of_depth_);
  logits_of_depth_ = logits;
  labels_of_depth_ = of_tokens("labels, one further", ElementType::kInt64);
  const ValueId mask = of_tokens("tokens that count", ElementType::kInt64);
  const ValueId loss = megatron(logits);
  const SlotName name{"mtp", "loss by token", "megatron.prediction-loss"};
  const ValueId masked = c_.multiply(loss, mask, name);
  loss_of_depth_ = masked;
  const ValueId counted = graph_.tensor({"mtp", "how many count", "megatron.prediction-loss"}, N(1),
                                        ElementType::kInt64, false);
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

template <class N>
ValueId LossWriter<N>::beside(ValueId hidden, ValueId loss) {
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

template class LossWriter<Checked>;
template class LossWriter<Traced>;

}  // namespace steelyard
