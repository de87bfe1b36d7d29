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
}

template <class N>
void Graph<N>::region(const Region& region) {
  std::erase_if(regions_, [&](const Region& inner) { return inner.begin >= region.begin; });
  regions_.push_back(region);
}

template <class N>
void Graph<N>::finish() {
  region_of_.assign(operators_.size(), -1);
  for (std::size_t region = 0; region < regions_.size(); ++region)
    for (int operation = regions_[region].begin; operation < regions_[region].end; ++operation)
      region_of_[at(operation)] = static_cast<int>(region);
  reruns_.assign(regions_.size(), {});
  find_savers();
  plan_reruns();
  find_uses();
  // What nobody keeps for backward is a temporary of forward.
  for (const Storage& storage : storages_)
    if (!storage.external && !storage.result && !storage.outlives && storage.first_saver < 0 &&
        storage.rerun_first_saver < 0)
      book_.program.sort_into(storage.slot, Pile::kTemporary);
  // Gradients need slots of their own; what arrives and leaves has one already.
  for (const Operator& operation : operators_) {
    if (!operation.recorded) continue;
    for (const BackwardStep& step : operation.backward) {
      if (step.kind != BackwardStep::kInputGradient) continue;
      Value& value = values_[at(operation.inputs[at(step.index)])];
      if (value.gradient >= 0) continue;
      const Slot& slot = book_.program.slot_at(storages_[at(value.storage)].slot);
      value.gradient = book_.slot({slot.owner, slot.name, "autograd.input-gradient"},
                                  Pile::kTemporary, value.elements, value.type);
    }
  }
}

template <class N>
bool Graph<N>::is_recorded(const Region& region) const {
  for (int i = region.begin; i < region.end; ++i)
    if (operators_[at(i)].recorded) return true;
  return false;
}

// Who keeps what. A region's first run keeps only what the region reads from outside; its second run keeps the rest.
template <class N>
void Graph<N>::find_savers() {
  auto keep = [](int& saver, int operation) {
    saver = saver < 0 ? operation : std::min(saver, operation);
  };
  for (int i = 0; i < size(); ++i) {
    const Operator& operation = operators_[at(i)];
    const int here = region_at(i);
    if (here >= 0 && is_recorded(regions_[at(here)])) {
      for (ValueId value : operation.inputs) {
        Storage& storage = storages_[at(values_[at(value)].storage)];
        if (region_at(storage.made_by) != here) keep(storage.first_saver, regions_[at(here)].begin);
      }
    }
    if (!operation.recorded) continue;
    for (ValueId value : operation.saved) {
      Storage& storage = storages_[at(values_[at(value)].storage)];
      const int made_in = region_at(storage.made_by);
      if (here >= 0) {
        if (made_in == here) keep(storage.rerun_first_saver, i);
      } else if (made_in >= 0 && regions_[at(made_in)].discards_output) {
        keep(storage.rerun_first_saver, i);
      } else {
        keep(storage.first_saver, i);
      }
    }
  }
}

template <class N>
void Graph<N>::plan_reruns() {
  for (std::size_t r = 0; r < regions_.size(); ++r) {
    const Region& region = regions_[r];
    Rerun& rerun = reruns_[r];
    rerun.trigger = region.end - 1;
    rerun.end = region.early_stop ? region.begin : region.end;
    for (int i = 0; i < size(); ++i) {
      const Operator& operation = operators_[at(i)];
      if (!operation.recorded) continue;
      if (region_at(i) == static_cast<int>(r) && !operation.saved.empty())
        rerun.end = std::max(rerun.end, i + 1);
      if (!region.discards_output || region_at(i) == static_cast<int>(r)) continue;
      for (ValueId value : operation.saved) {
        const Storage& storage = storages_[at(values_[at(value)].storage)];
        if (region_at(storage.made_by) != static_cast<int>(r)) continue;
        rerun.trigger = std::max(rerun.trigger, i);
        rerun.end = std::max(rerun.end, storage.made_by + 1);
      }
    }
  }
  for (Storage& storage : storages_) {
    const int made_in = region_at(storage.made_by);
    if (made_in < 0) continue;
    storage.rerun_last_use = storage.made_by;
  }
  for (int i = 0; i < size(); ++i) {
    if (region_at(i) < 0) continue;
    for (ValueId value : operators_[at(i)].inputs) {
      Storage& storage = storages_[at(values_[at(value)].storage)];
      if (region_at(storage.made_by) == region_at(i))
        storage.rerun_last_use = std::max(storage.rerun_last_use, i);
    }
  }
}

template <class N>
void Graph<N>::find_uses() {
  // The caller holds a layer's input until the layer has returned.
  for (Storage& storage : storages_)
    if (storage.held) storage.last_use = size() - 1;
}

template <class N>
std::vector<Event> Graph<N>::forward() const {
  std::vector<Event> events;
  events.reserve(operators_.size() * 4);
  for (int i = 0; i < size(); ++i) {
    const Operator& operation = operators_[at(i)];
    for (ValueId value : operation.outputs) {
      const Storage& storage = storages_[at(values_[at(value)].storage)];
      if (storage.made_by == i) events.push_back({storage.slot, 1});
    }
    for (SlotId slot : operation.passing) events.push_back({slot, 1});
    for (SlotId slot : operation.passing) events.push_back({slot, -1});
    for (const Storage& storage : storages_)
      if (storage.last_use == i && storage.first_saver < 0 && !storage.result && storage.released &&
          !storage.lingers && !storage.outlives)
        events.push_back({storage.slot, -1});
  }
  return events;
}

template <class N>
void Graph<N>::play_again(const Region& region, const Rerun& rerun,
                          std::vector<Event>& events) const {
  for (int i = region.begin; i < rerun.end; ++i) {
    const Operator& operation = operators_[at(i)];
    for (ValueId value : operation.outputs) {
      const Storage& storage = storages_[at(values_[at(value)].storage)];
      if (storage.made_by == i) events.push_back({storage.slot, 1});
    }
    for (SlotId slot : operation.passing) events.push_back({slot, 1});
    for (SlotId slot : operation.passing) events.push_back({slot, -1});
    for (const Storage& storage : storages_)
      if (storage.made_by >= region.begin && std::min(storage.rerun_last_use, rerun.end - 1) == i &&
          storage.made_by <= i && storage.made_by < region.end && storage.rerun_first_saver < 0)
        events.push_back({storage.slot, -1});
  }
}

namespace {

// A gradient on its way: how many readers still hold it.
struct Carried {
  SlotId slot = -1;
  int holders = 0;
};

}  // namespace

template <class N>
std::vector<Event> Graph<N>::backward(GradientPolicy policy, std::size_t* before_products) const {
  std::vector<Event> events;
  bool product_ran = false;
  events.reserve(operators_.size() * 6);
  std::vector<Carried> carried;
  carried.reserve(values_.size());
  std::vector<int> gradient(values_.size(), -1);  // index into `carried`

  // What an operator kept goes once it has run backward.
  auto release = [&](int operation) {
    for (const Storage& storage : storages_)
      if ((storage.first_saver == operation || storage.rerun_first_saver == operation) &&
          storage.released && !storage.outlives)
        events.push_back({storage.slot, -1});
  };
  auto drop = [&](int index) {
    Carried& buffer = carried[at(index)];
    if (--buffer.holders == 0) events.push_back({buffer.slot, -1});
  };
  // A gradient arrives where one may be waiting: added in place when its holder is alone.
  auto arrive = [&](ValueId value, int buffer) {
    int& waiting = gradient[at(value)];
    if (waiting < 0) {
      waiting = buffer;
      return;
    }
    if (carried[at(waiting)].holders == 1) {
      drop(buffer);
      return;
    }
    carried.push_back(
        {values_[at(value)].gradient >= 0 ? values_[at(value)].gradient : carried[at(waiting)].slot,
         1});
    events.push_back({carried.back().slot, 1});
    drop(waiting);
    drop(buffer);
    waiting = static_cast<int>(carried.size()) - 1;
  };

  for (std::size_t value = 0; value < values_.size(); ++value)
    if (storages_[at(values_[value].storage)].result && values_[value].gradient >= 0 &&
        values_[value].needs_gradient) {
      carried.push_back({values_[value].gradient, borrows_result_gradient_ ? 2 : 1});
      gradient[value] = static_cast<int>(carried.size()) - 1;
    }

  for (int i = size() - 1; i >= 0; --i) {
    for (std::size_t r = 0; r < regions_.size(); ++r)
      if (reruns_[r].trigger == i && is_recorded(regions_[r]))
        play_again(regions_[r], reruns_[r], events);
    const Operator& operation = operators_[at(i)];
    if (!product_ran && operation.flops > 0 && operation.recorded) {
      product_ran = true;
      if (before_products != nullptr) *before_products = events.size();
    }
    Few<int, 6> incoming;
    for (ValueId output : operation.outputs) incoming.push_back(gradient[at(output)]);
    if (operation.recorded) {
      Few<int, 6> made;  // gradient buffers by position in `made_for`
      Few<ValueId, 6> made_for;
      Few<int, 6> parameters;
      Few<SlotId, 14> temporaries;
      for (const BackwardStep& step : operation.backward) {
        switch (step.kind) {
          case BackwardStep::kTemporary:
            events.push_back({step.slot, 1});
            temporaries.push_back(step.slot);
            break;
          case BackwardStep::kPassing:
            events.push_back({step.slot, 1});
            events.push_back({step.slot, -1});
            break;
          case BackwardStep::kInputGradient: {
            const ValueId input = operation.inputs[at(step.index)];
            if (!values_[at(input)].needs_gradient) break;
            carried.push_back({values_[at(input)].gradient, 1});
            events.push_back({carried.back().slot, 1});
            made.push_back(static_cast<int>(carried.size()) - 1);
            made_for.push_back(input);
            break;
          }
          case BackwardStep::kAliasGradient: {
            const ValueId input = operation.inputs[at(step.index)];
            if (!values_[at(input)].needs_gradient || incoming.empty() || incoming[0] < 0) break;
            ++carried[at(incoming[0])].holders;
            made.push_back(incoming[0]);
            made_for.push_back(input);
            break;
          }
          case BackwardStep::kParameterGradient: {
            if (policy == GradientPolicy::kFused) break;
            const GradientSlots& slots = parameters_[at(step.index)];
            events.push_back({slots.computed >= 0 ? slots.computed : slots.kept, 1});
            parameters.push_back(step.index);
            break;
          }
          case BackwardStep::kFreeOutputGradient:
            if (incoming[at(step.index)] >= 0) {
              drop(incoming[at(step.index)]);
              incoming[at(step.index)] = -1;
            }
            break;
        }
      }
      for (SlotId slot : temporaries) events.push_back({slot, -1});
      for (int buffer : incoming)
        if (buffer >= 0) drop(buffer);
      release(i);
      for (int parameter : parameters) {
        const GradientSlots& slots = parameters_[at(parameter)];
        if (slots.computed >= 0) {
          events.push_back({slots.kept, 1});
          if (slots.waiting < 0) events.push_back({slots.computed, -1});
        }
        if (slots.waiting >= 0) {
          // What a cast has made is the engine's alone and takes the sum; the product's is a transposed view, and the sum
          // is a new tensor, under the name of its first part.
          if (!slots.waiting_was_cast) {
            events.push_back({slots.waiting, 1});
            events.push_back({slots.waiting, -1});
          }
          events.push_back({slots.kept, -1});
          if (slots.computed >= 0) events.push_back({slots.computed, -1});
          if (policy == GradientPolicy::kAdd) events.push_back({slots.waiting, -1});
        } else if (policy == GradientPolicy::kAdd && !slots.waits) {
          events.push_back({slots.kept, -1});
        }
      }
      for (std::size_t k = 0; k < made.size(); ++k) arrive(made_for[k], made[k]);
    } else {
      release(i);
    }
  }
  if (!product_ran && before_products != nullptr) *before_products = events.size();
  // The gradient that leaves may have been passed on from inside; the next graph knows it under the slot of the input.
  for (std::size_t value = 0; value < values_.size(); ++value) {
    if (!storages_[at(values_[value].storage)].external || values_[value].gradient < 0 ||
        gradient[value] < 0)
      continue;
    const Carried& leaving = carried[at(gradient[value])];
    if (leaving.slot == values_[value].gradient) continue;
    events.push_back({leaving.slot, -1});
    events.push_back({values_[value].gradient, 1});
  }
  return events;
}

template <class N>
std::vector<SlotId> Graph<N>::lingering() const {
  std::vector<SlotId> slots;
  for (const Storage& storage : storages_)
    if (storage.lingers && storage.first_saver < 0) slots.push_back(storage.slot);
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
std::vector<SlotId> Graph<N>::kept() const {
  std::vector<SlotId> slots;
  for (const Storage& storage : storages_)
    if (storage.first_saver >= 0 && storage.released) slots.push_back(storage.slot);
  return slots;
}

template <class N>
std::vector<SlotId> Graph<N>::parameter_gradients() const {
  std::vector<SlotId> slots;
  for (const GradientSlots& parameter : parameters_)
    if (parameter.waiting < 0) slots.push_back(parameter.kept);
  return slots;
}

template <class N>
double Graph<N>::flops() const {
  double sum = 0;
  for (const Operator& operation : operators_) sum += operation.flops;
  return sum;
}

template class Graph<Checked>;
template class Graph<Traced>;

}  // namespace steelyard
