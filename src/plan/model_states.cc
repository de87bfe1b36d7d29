#include "plan/model_states.h"

namespace steelyard {
namespace {

double bytes_of(ElementType type) { return static_cast<double>(bits_of(type)) / 8; }

}  // namespace

ModelStates model_states_of(const Precision& precision, const Optimizer& optimizer) {
  ModelStates states;
  states.parameters = bytes_of(precision.parameters);
  states.gradients = bytes_of(precision.gradients);
  if (precision.accumulated_gradients)
    states.accumulated_gradients = bytes_of(*precision.accumulated_gradients);
  const bool master = precision.master && optimizer.keeps_master;
  if (master) states.master_weights = bytes_of(*precision.master);
  const ElementType stepped = master ? *precision.master : precision.parameters;
  for (const OptimizerSlot& slot : optimizer.slots) {
    // Slots for vectors and small tensors are a thousandth of a model: the rule of thumb leaves
    // them out.
    if (slot.applies_to == SlotAppliesTo::kVectors || slot.applies_to == SlotAppliesTo::kSmall ||
        slot.applies_to == SlotAppliesTo::kNotHiddenMatrices)
      continue;
    const double each = bytes_of(slot.type.value_or(stepped)) * static_cast<double>(slot.count);
    if (slot.extent == SlotExtent::kParameter) states.moments += each;
    if (slot.extent == SlotExtent::kBlock && slot.block > 0)
      states.moments += each / static_cast<double>(slot.block);
  }
  return states;
}

double states_per_rank(const ModelStates& states, std::int64_t zero_stage, std::int64_t ranks) {
  const auto shards = static_cast<double>(ranks);
  const double gradients = states.gradients + states.accumulated_gradients;
  const double optimizer = states.master_weights + states.moments;
  switch (zero_stage) {
    case 0:
      return states.total();
    case 1:
      return states.parameters + gradients + optimizer / shards;
    case 2:
      return states.parameters + (gradients + optimizer) / shards;
    default:
      return states.total() / shards;
  }
}

}  // namespace steelyard
