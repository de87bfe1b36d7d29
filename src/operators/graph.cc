// How a graph is written down, and what it answers when it is complete.
#include "operators/graph.h"

#include <algorithm>

namespace steelyard {

template <class N>
ValueId Graph<N>::input(SlotId slot, const N& elements, ElementType type, bool needs_gradient,
                        bool released, bool caller_holds) {
  Storage storage;
  storage.slot = slot;
  storage.external = true;
  storage.released = released;
  storage.held = released && caller_holds;
  storages_.push_back(storage);
  values_.push_back({static_cast<int>(storages_.size()) - 1, elements, type, needs_gradient, -1});
  return static_cast<ValueId>(values_.size()) - 1;
}

template <class N>
ValueId Graph<N>::tensor(const SlotName& name, const N& elements, ElementType type,
                         bool needs_gradient) {
  Storage storage;
  storage.slot = book_.slot(name, Pile::kActivations, elements, type);
  storages_.push_back(storage);
  values_.push_back({static_cast<int>(storages_.size()) - 1, elements, type, needs_gradient, -1});
  return static_cast<ValueId>(values_.size()) - 1;
}

template <class N>
ValueId Graph<N>::view(ValueId base, const N& elements) {
  Value value = values_[at(base)];
  value.elements = elements;
  value.gradient = -1;
  value.waits = value.handed_on = false;
  values_.push_back(value);
  return static_cast<ValueId>(values_.size()) - 1;
}

template <class N>
void Graph<N>::add(const Operator& operation) {
  const int index = size();
  operators_.push_back(operation);
  // Autograd records an operator when something it reads needs a gradient, be it a tensor or a parameter; steps for
  // parameters that are not trained fall away.
  Few<BackwardStep, 14> steps;
  for (const BackwardStep& step : operation.backward)
    if (step.kind != BackwardStep::kParameterGradient || step.index >= 0) steps.push_back(step);
  bool needed = std::any_of(operation.inputs.begin(), operation.inputs.end(),
                            [&](ValueId value) { return values_[at(value)].needs_gradient; });
  for (const BackwardStep& step : steps)
    needed = needed || step.kind == BackwardStep::kParameterGradient;
  operators_.back().backward = steps;
  operators_.back().recorded = needed;
  operators_.back().part = part_;
  // The first output is the result; those beside it (statistics, masks, indices) say for themselves.
  if (needed && !operation.outputs.empty()) values_[at(operation.outputs[0])].needs_gradient = true;
  if (!needed)
    for (ValueId output : operation.outputs) values_[at(output)].needs_gradient = false;
  for (ValueId output : operation.outputs) {
    Storage& storage = storages_[at(values_[at(output)].storage)];
    if (storage.made_by < 0 && !storage.external) storage.made_by = index;
  }
  for (ValueId value : operation.inputs) {
    Storage& storage = storages_[at(values_[at(value)].storage)];
    storage.last_use = std::max(storage.last_use, index);
  }
  for (ValueId value : operation.outputs) {
    Storage& storage = storages_[at(values_[at(value)].storage)];
    storage.last_use = std::max(storage.last_use, index);
  }
}

template <class N>
void Graph<N>::hold(ValueId value) {
  Storage& storage = storages_[at(values_[at(value)].storage)];
  storage.last_use = std::max(storage.last_use, size() - 1);
}

template <class N>
void Graph<N>::result(ValueId value, SlotId slot) {
  Storage& storage = storages_[at(values_[at(value)].storage)];
  storage.result = true;
  storage.slot = slot;
  values_[at(value)].handed_on = true;
}

template <class N>
void Graph<N>::region(const Region& region) {
  std::erase_if(regions_, [&](const Region& inner) { return inner.begin >= region.begin; });
  regions_.push_back(region);
}

template <class N>
void Graph<N>::keep_chosen_outputs(bool early_stop, bool compiled) {
  regions_.back().early_stop = early_stop || compiled;
  keeps_what_is_read_ = compiled;
  // Where nothing asks for a gradient nothing is saved, and what was chosen goes with the checkpoint's frame.
  bool differentiated = false;
  for (int i = regions_.back().begin; i < regions_.back().end; ++i)
    for (ValueId value : operators_[at(i)].outputs) differentiated |= needs_gradient(value);
  if (!differentiated) return;
  int products = 0;
  for (int i = regions_.back().begin; i < regions_.back().end; ++i) {
    Operator& operation = operators_[at(i)];
    // aten.mm, of tensors whose factors will have 8 bits, too; a product with a bias is aten.addmm, which is neither counted
    // nor kept.
    const bool product = operation.arithmetic.kind == Arithmetic::kProduct &&
                         !operation.backward.empty() &&
                         (operation.arithmetic.eight_bits ||
                          operation.backward[0].kind == BackwardStep::kParameterGradient);
    if (product) ++products;
    operation.stays =
        operation.arithmetic.kind == Arithmetic::kAttention || (product && products % 2 == 1);
    if (!operation.stays) continue;
    for (ValueId value : operation.outputs) {
      Storage& storage = storages_[at(values_[at(value)].storage)];
      storage.stays = storage.made_by == i && !storage.result;
    }
  }
}

template <class N>
std::vector<SlotId> Graph<N>::lingering(bool saved) const {
  std::vector<SlotId> slots;
  for (const Storage& storage : storages_)
    if (storage.lingers && (saved || storage.first_saver < 0)) slots.push_back(storage.slot);
  return slots;
}

template <class N>
std::vector<SlotId> Graph<N>::outliving() const {
  std::vector<SlotId> slots;
  for (const Storage& storage : storages_)
    if (storage.outlives) slots.push_back(storage.slot);
  return slots;
}

template <class N>
std::vector<SlotId> Graph<N>::named() const {
  std::vector<SlotId> slots;
  for (const Storage& storage : storages_)
    if (storage.named && !storage.result && (storage.first_saver < 0 || waits_on_host(storage)))
      slots.push_back(storage.slot);
  return slots;
}

template <class N>
bool Graph<N>::names_result() const {
  return std::any_of(storages_.begin(), storages_.end(),
                     [](const Storage& storage) { return storage.named && storage.result; });
}

template <class N>
std::vector<SlotId> Graph<N>::kept() const {
  std::vector<SlotId> slots;
  for (const Storage& storage : storages_)
    if ((storage.first_saver >= 0 || storage.stays) && storage.released && !waits_on_host(storage))
      slots.push_back(storage.slot);
  return slots;
}

template <class N>
std::vector<SlotId> Graph<N>::kept_by_nodes() const {
  std::vector<SlotId> slots;
  for (const Operator& operation : operators_) {
    if (!operation.saved_by_node || !operation.recorded) continue;
    for (const ValueId value : operation.saved) {
      const SlotId slot = storage_slot(value);
      if (std::find(slots.begin(), slots.end(), slot) == slots.end()) slots.push_back(slot);
    }
  }
  return slots;
}

template <class N>
std::vector<SlotId> Graph<N>::parameter_gradients() const {
  std::vector<SlotId> slots;
  for (const GradientSlots& parameter : parameters_)
    if (parameter.waiting < 0) slots.push_back(parameter.sum >= 0 ? parameter.sum : parameter.kept);
  return slots;
}

template <class N>
std::vector<SlotId> Graph<N>::optimizer_states() const {
  std::vector<SlotId> slots;
  for (const GradientSlots& parameter : parameters_)
    slots.insert(slots.end(), parameter.states.begin(), parameter.states.end());
  return slots;
}

template <class N>
WaitingGradient Graph<N>::waiting_gradient() const {
  // One that another of this graph adds to, the last of them, waits no longer.
  const auto is_settled = [&](const GradientSlots& first) {
    return std::any_of(parameters_.begin(), parameters_.end(), [&](const GradientSlots& later) {
      return later.waiting == first.kept && !later.waits;
    });
  };
  for (const GradientSlots& parameter : parameters_)
    if (parameter.waits && parameter.waiting < 0 && !is_settled(parameter))
      return {parameter.kept, parameter.sum, parameter.is_alone};
  return {};
}

template class Graph<Checked>;
template class Graph<Traced>;

}  // namespace steelyard
