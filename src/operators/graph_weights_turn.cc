// The gradients of weights in a turn of their own, as zero-bubble schedules put them off.
#include <algorithm>

#include "operators/graph_backward.h"

namespace steelyard {

template <class N>
void BackwardPlayer<N>::find_weight_users() {
  const std::size_t storages = graph_.storages_.size();
  weight_user_.assign(storages, -1);
  first_user_.assign(storages, -1);
  second_user_.assign(storages, -1);
  kept_by_others_.assign(storages, false);
  has_run_.assign(storages, false);
  copies_.assign(storages, 0);
  for (int i = graph_.size() - 1; i >= 0; --i) {
    const Operator& operation = graph_.operators_[at(i)];
    const int here = graph_.region_at(i);
    for (ValueId value : operation.saved) {
      const std::size_t index = at(graph_.values_[at(value)].storage);
      if (!graph_.is_deferred(operation)) {
        kept_by_others_[index] = kept_by_others_[index] || operation.recorded;
        continue;
      }
      weight_user_[index] = i;
      const int made_in = graph_.region_at(graph_.storages_[index].made_by);
      const bool of_second =
          made_in >= 0 &&
          (made_in == here || (here < 0 && graph_.regions_[at(made_in)].discards_output));
      (of_second ? second_user_ : first_user_)[index] = i;
    }
  }
}

template <class N>
void BackwardPlayer<N>::rerun_for(const Deferred& deferred) {
  const int region = graph_.region_of_[at(deferred.operation)];
  if (region < 0 || !graph_.is_recorded(graph_.regions_[at(region)])) return;
  graph_.play_again(graph_.regions_[at(region)], graph_.reruns_[at(region)], *events_);
  for (std::size_t index = 0; index < copies_.size(); ++index) {
    if (!is_rerun_of(index, region)) continue;
    if (has_run_[index])
      put(graph_.storages_[index].slot, -1);  // nobody can ask for it any more
    else
      ++copies_[index];
  }
}

template <class N>
bool BackwardPlayer<N>::is_rerun_of(std::size_t index, int region) const {
  const auto& storage = graph_.storages_[index];
  return storage.rerun_first_saver >= 0 && storage.released && !storage.outlives &&
         graph_.region_of_[at(storage.rerun_first_saver)] == region;
}

template <class N>
void BackwardPlayer<N>::let_copies_go(std::size_t index) {
  if (copies_[index] > 0) put(graph_.storages_[index].slot, -copies_[index]);
  copies_[index] = 0;
}

template <class N>
void BackwardPlayer<N>::let_graph_go(bool above) {
  int top = -1;
  for (const Deferred& deferred : deferred_) top = std::max(top, deferred.operation);
  for (std::size_t index = 0; index < graph_.storages_.size(); ++index) {
    const auto& storage = graph_.storages_[index];
    // Also where the input's gradient has overwritten what the first of them was.
    if (!above) let_copies_go(index);
    if (!goes_with_saver(index)) continue;
    const bool alone = is_of_weights_alone(index);
    if (storage.first_saver >= 0 && !alone && (storage.first_saver > top) == above)
      put(storage.slot, -1);
  }
}

template <class N>
bool BackwardPlayer<N>::is_of_weights_alone(std::size_t storage) const {
  return weight_user_[storage] >= 0 && graph_.storages_[storage].rerun_first_saver < 0 &&
         !kept_by_others_[storage];
}

template <class N>
void BackwardPlayer<N>::play_weights_of_graph() {
  std::reverse(deferred_.begin(), deferred_.end());
  const auto is_product = [&](const Deferred& deferred) {
    return graph_.operators_[at(deferred.operation)].arithmetic.some();
  };
  if (std::count_if(deferred_.begin(), deferred_.end(), is_product) > 1)
    std::stable_partition(deferred_.begin(), deferred_.end(), is_product);
  for (std::size_t storage = 0; storage < weight_user_.size(); ++storage)
    weight_user_[storage] = -1;
  for (const Deferred& deferred : deferred_)
    for (ValueId value : graph_.operators_[at(deferred.operation)].saved)
      weight_user_[at(graph_.values_[at(value)].storage)] = deferred.operation;
  const Deferred* before = nullptr;
  for (const Deferred& deferred : deferred_) {
    if (before != nullptr) drop_all(before->incoming);
    put_all(deferred.incoming, 1);
    if (before != nullptr) put_all(before->incoming, -1);
    rerun_for(deferred);
    for_parameters(deferred, [&](int parameter) { make_parameter_gradient(parameter); });
    for (std::size_t index = 0; index < graph_.storages_.size(); ++index)
      if (weight_user_[index] == deferred.operation && is_of_weights_alone(index) &&
          goes_with_saver(index) && graph_.storages_[index].first_saver >= 0)
        put(graph_.storages_[index].slot, -1);
    for (std::size_t index = 0; index < copies_.size(); ++index)
      if (weight_user_[index] == deferred.operation && !kept_by_others_[index]) {
        has_run_[index] = true;
        let_copies_go(index);
      }
    if (before != nullptr) for_parameters(*before, [&](int parameter) { settle(parameter); });
    before = &deferred;
  }
  if (before == nullptr) return;
  drop_all(before->incoming);
  put_all(before->incoming, -1);
  for_parameters(*before, [&](int parameter) { settle(parameter); });
}

template <class N>
void BackwardPlayer<N>::play_weights(const Deferred& deferred) {
  const Operator& operation = graph_.operators_[at(deferred.operation)];
  Few<SlotId, 14> temporaries;
  for (const BackwardStep& step : operation.backward) {
    if (step.kind == BackwardStep::kTemporary) {
      put(step.slot, 1);
      temporaries.push_back(step.slot);
    } else if (step.kind == BackwardStep::kParameterGradient && policy_ != GradientPolicy::kFused) {
      make_parameter_gradient(step.index);
    }
  }
  for (SlotId slot : temporaries) put(slot, -1);
  drop_all(deferred.incoming);
  for (std::size_t index = 0; index < graph_.storages_.size(); ++index) {
    const auto& storage = graph_.storages_[index];
    if (!goes_with_saver(index)) continue;
    if (storage.first_saver >= 0 && first_user_[index] == deferred.operation) put(storage.slot, -1);
    if (storage.rerun_first_saver >= 0 && second_user_[index] == deferred.operation)
      put(storage.slot, -1);
  }
  if (policy_ == GradientPolicy::kFused) return;
  for (const BackwardStep& step : operation.backward)
    if (step.kind == BackwardStep::kParameterGradient) settle(step.index);
}

template class BackwardPlayer<Checked>;
template class BackwardPlayer<Traced>;

}  // namespace steelyard
