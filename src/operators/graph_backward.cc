#include "operators/graph_backward.h"

#include <algorithm>
#include <utility>

namespace steelyard {

template <class N>
bool Graph<N>::is_deferred(const Operator& operation) const {
  return operation.recorded && (operation.arithmetic.some() || keeps_graph_) &&
         std::any_of(operation.backward.begin(), operation.backward.end(),
                     [](const BackwardStep& step) {
                       return step.kind == BackwardStep::kParameterGradient;
                     });
}

template <class N>
SplitTapes BackwardPlayer<N>::play() {
  for (std::size_t value = 0; value < graph_.values_.size(); ++value)
    if (((graph_.values_[value].handed_on && graph_.values_[value].gradient >= 0) ||
         graph_.values_[value].waits) &&
        graph_.values_[value].needs_gradient) {
      carried_.push_back({graph_.values_[value].gradient, graph_.borrows_result_gradient_ ? 2 : 1});
      gradient_[value] = static_cast<int>(carried_.size()) - 1;
    }
  for (int i = graph_.size() - 1; i >= 0; --i) play_back(i);
  if (!product_ran_) tapes_.before_products = tapes_.input.size();
  hand_over();
  if (split_ && graph_.keeps_graph_) {
    let_graph_go(true);
    events_ = &tapes_.weight;
    play_weights_of_graph();
    let_graph_go(false);
    return std::move(tapes_);
  }
  events_ = &tapes_.weight;
  for (const Deferred& deferred : deferred_) play_weights(deferred);
  return std::move(tapes_);
}

template <class N>
void BackwardPlayer<N>::release(int operation) {
  for (std::size_t index = 0; index < graph_.storages_.size(); ++index) {
    const auto& storage = graph_.storages_[index];
    if (!goes_with_saver(index)) continue;
    const bool first_waits = split_ && (graph_.keeps_graph_ || first_user_[index] >= 0);
    const bool second_waits = split_ && !graph_.keeps_graph_ && second_user_[index] >= 0;
    if (storage.first_saver == operation && !first_waits && !graph_.waits_on_host(storage))
      put(storage.slot, -1);
    if (storage.rerun_first_saver == operation && !second_waits && !is_given(storage) &&
        returned_ != operation)
      put(storage.slot, -1);
  }
  const int region = graph_.region_at(operation);
  if (region >= 0 && graph_.regions_[at(region)].begin == operation) return_from(region);
  if (region >= 0) drop_inputs(at(region), operation);
  // What the second run did not come to goes with the region's graph.
  if (region >= 0 && graph_.regions_[at(region)].begin == operation)
    for (const auto& storage : graph_.storages_)
      if (graph_.stays_unread(storage) && graph_.region_at(storage.made_by) == region)
        put(storage.slot, -1);
}

template <class N>
void BackwardPlayer<N>::enter(const Region& region) {
  for (std::size_t value = 0; value < graph_.values_.size(); ++value)
    if (gradient_[value] >= 0 && graph_.is_given_by(region, storage_of(value))) {
      ++carried_[at(gradient_[value])].holders;
      arguments_.push_back(gradient_[value]);
    }
}

template <class N>
void BackwardPlayer<N>::return_from(int region) {
  const Region& returning = graph_.regions_[at(region)];
  if (!returning.reentrant || !graph_.is_recorded(returning)) return;
  for (const auto& storage : graph_.storages_)
    if (graph_.is_given_by(returning, storage)) put(storage.slot, -1);
  for (int argument : arguments_) drop(argument);
  arguments_.clear();
}

template <class N>
void BackwardPlayer<N>::let_go_of_copies(int operation) {
  const int region = graph_.region_at(operation);
  if (region < 0 || graph_.regions_[at(region)].reentrant ||
      graph_.regions_[at(region)].discards_output)
    return;
  returned_ = operation;
  for (std::size_t index = 0; index < graph_.storages_.size(); ++index)
    if (graph_.storages_[index].rerun_first_saver == operation && goes_with_saver(index))
      put(graph_.storages_[index].slot, -1);
}

template <class N>
void BackwardPlayer<N>::arrive(ValueId value, int buffer) {
  int& waiting = gradient_[at(value)];
  if (waiting < 0) {
    waiting = buffer;
    return;
  }
  if (carried_[at(waiting)].holders == 1) {
    drop(buffer);
    return;
  }
  const SlotId slot = graph_.values_[at(value)].gradient;
  carried_.push_back({slot >= 0 ? slot : carried_[at(waiting)].slot, 1});
  put(carried_.back().slot, 1);
  drop(waiting);
  drop(buffer);
  waiting = static_cast<int>(carried_.size()) - 1;
}

template <class N>
void BackwardPlayer<N>::settle(int parameter) {
  const GradientSlots& slots = graph_.parameters_[at(parameter)];
  if (slots.computed >= 0) {
    put(slots.kept, 1);
    if (slots.waiting < 0) put(slots.computed, -1);
  }
  if (tapes_.first_gradient == 0 && !slots.waits) tapes_.first_gradient = events_->size();
  if (slots.waiting >= 0) {
    // What a cast has made is the engine's alone and takes the sum; the product's is a transposed view, and the sum
    // is a new tensor.
    const SlotId sum = slots.sum >= 0 ? slots.sum : slots.waiting;
    if (!slots.waiting_was_cast) {
      put(sum, 1);
      put(slots.waiting, -1);
    }
    put(slots.kept, -1);
    if (slots.computed >= 0) put(slots.computed, -1);
    if (slots.waits) return;  // for one more
    use(slots, sum);
  } else if (!slots.waits) {
    use(slots, slots.kept);
  }
}

template <class N>
void BackwardPlayer<N>::use(const GradientSlots& slots, SlotId gradient) {
  if (!uses_at_once(policy_)) return;
  if (policy_ == GradientPolicy::kFirstStep)
    for (const SlotId state : slots.states) put(state, 1);
  if (slots.stepped >= 0) {
    put(slots.stepped, 1);
    put(slots.stepped, -1);
  }
  put(gradient, -1);
}

template <class N>
void BackwardPlayer<N>::play_back(int i) {
  for (std::size_t r = 0; r < graph_.regions_.size(); ++r)
    if (graph_.reruns_[r].trigger == i && graph_.is_recorded(graph_.regions_[r])) {
      fetch_inputs(r);
      graph_.play_again(graph_.regions_[r], graph_.reruns_[r], *events_);
      drop_inputs(r, -1);
      if (graph_.regions_[r].reentrant) enter(graph_.regions_[r]);
    }
  const Operator& operation = graph_.operators_[at(i)];
  if (!product_ran_ && operation.arithmetic.some() && operation.recorded) {
    product_ran_ = true;
    tapes_.before_products = events_->size();
  }
  if (!operation.recorded) {
    release(i);
    return;
  }
  for (SlotId copy : graph_.copies_[at(i)]) put(copy, 1);
  Few<int, 8> incoming;
  for (ValueId output : operation.outputs) incoming.push_back(gradient_[at(output)]);
  const bool deferred = split_ && graph_.is_deferred(operation);
  Few<int, 6> made;  // gradient buffers by position in `made_for`
  Few<ValueId, 6> made_for;
  Few<int, 6> parameters;
  Few<SlotId, 14> temporaries;
  for (const BackwardStep& step : operation.backward) {
    switch (step.kind) {
      case BackwardStep::kTemporary:
        put(step.slot, 1);
        temporaries.push_back(step.slot);
        break;
      case BackwardStep::kPassing:
        put(step.slot, 1);
        put(step.slot, -1);
        break;
      case BackwardStep::kInputGradient: {
        const ValueId input = operation.inputs[at(step.index)];
        if (!graph_.values_[at(input)].needs_gradient) break;
        carried_.push_back({graph_.values_[at(input)].gradient, 1});
        put(carried_.back().slot, 1);
        made.push_back(static_cast<int>(carried_.size()) - 1);
        made_for.push_back(input);
        break;
      }
      case BackwardStep::kAliasGradient: {
        const ValueId input = operation.inputs[at(step.index)];
        if (!graph_.values_[at(input)].needs_gradient || incoming.empty() || incoming[0] < 0) break;
        ++carried_[at(incoming[0])].holders;
        made.push_back(incoming[0]);
        made_for.push_back(input);
        break;
      }
      case BackwardStep::kInPlaceGradient: {
        const ValueId input = operation.inputs[at(step.index)];
        if (!graph_.values_[at(input)].needs_gradient) break;
        const std::size_t storage = at(graph_.values_[at(input)].storage);
        overwritten_[storage] = true;
        // What the caller owns stays his: one holder more.
        const bool ours = graph_.storages_[storage].released && !graph_.storages_[storage].outlives;
        carried_.push_back({graph_.storages_[storage].slot, ours ? 1 : 2});
        made.push_back(static_cast<int>(carried_.size()) - 1);
        made_for.push_back(input);
        break;
      }
      case BackwardStep::kHandedOn: {
        const std::size_t storage = at(graph_.values_[at(operation.saved[at(step.index)])].storage);
        if (deferred || !goes_with_saver(storage)) break;
        overwritten_[storage] = true;
        put(graph_.storages_[storage].slot, -1);
        break;
      }
      case BackwardStep::kParameterGradient:
        if (policy_ == GradientPolicy::kFused || deferred) break;
        make_parameter_gradient(step.index);
        parameters.push_back(step.index);
        break;
      case BackwardStep::kFreeTemporaries:
        for (SlotId slot : temporaries) put(slot, -1);
        temporaries = {};
        break;
      case BackwardStep::kReturned:
        if (!split_) let_go_of_copies(i);
        break;
      case BackwardStep::kFreeOutputGradient:
        if (incoming[at(step.index)] >= 0 && !deferred) {
          drop(incoming[at(step.index)]);
          incoming[at(step.index)] = -1;
        }
        break;
    }
  }
  for (SlotId slot : temporaries) put(slot, -1);
  if (!graph_.returns_late_)
    for (SlotId copy : graph_.copies_[at(i)]) put(copy, -1);
  if (deferred)
    deferred_.push_back({i, incoming});
  else
    for (int buffer : incoming)
      if (buffer >= 0) drop(buffer);
  if (graph_.returns_late_)
    if (std::optional<std::vector<SlotId>> slots = graph_.returned_for(i)) {
      for (SlotId slot : std::exchange(brought_back_, *std::move(slots))) put(slot, -1);
    }
  release(i);
  for (int parameter : parameters) settle(parameter);
  for (std::size_t k = 0; k < made.size(); ++k) arrive(made_for[k], made[k]);
  if (product_ran_ && tapes_.first_product_ran == 0) tapes_.first_product_ran = events_->size();
}

template <class N>
void BackwardPlayer<N>::hand_over() {
  for (std::size_t value = 0; value < graph_.values_.size(); ++value) {
    if (!storage_of(value).external || graph_.values_[value].gradient < 0 || gradient_[value] < 0)
      continue;
    const Carried& leaving = carried_[at(gradient_[value])];
    if (leaving.slot == graph_.values_[value].gradient) continue;
    put(leaving.slot, -1);
    put(graph_.values_[value].gradient, 1);
  }
}

template <class N>
SplitTapes Graph<N>::whole_backward(GradientPolicy policy) const {
  return BackwardPlayer<N>(*this, policy, false).play();
}

template <class N>
SplitTapes Graph<N>::split_backward(GradientPolicy policy) const {
  return BackwardPlayer<N>(*this, policy, true).play();
}

template class BackwardPlayer<Checked>;
template class BackwardPlayer<Traced>;
template class Graph<Checked>;
template class Graph<Traced>;

}  // namespace steelyard
