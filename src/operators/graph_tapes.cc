// The tapes of a graph, as autograd plays them: forward, a region once more, backward.
#include <algorithm>

#include "operators/graph.h"

namespace steelyard {

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
    if (!product_ran && operation.arithmetic.kind != Arithmetic::kNone && operation.recorded) {
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

template class Graph<Checked>;
template class Graph<Traced>;

}  // namespace steelyard
