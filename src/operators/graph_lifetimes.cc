// How long the storages of a graph live: who keeps what for backward, when a region runs again, what a gradient is called.
#include <algorithm>

#include "operators/graph.h"

namespace steelyard {

template <class N>
void Graph<N>::finish() {
  region_of_.assign(operators_.size(), -1);
  for (std::size_t region = 0; region < regions_.size(); ++region)
    for (int operation = regions_[region].begin; operation < regions_[region].end; ++operation)
      region_of_[at(operation)] = static_cast<int>(region);
  reruns_.assign(regions_.size(), {});
  find_savers();
  plan_reruns();
  if (keeps_what_is_read_) drop_unread_choices();
  find_uses();
  plan_copies();
  // What nobody keeps for backward is a temporary of forward.
  for (const Storage& storage : storages_)
    if (!storage.external && !storage.result && !storage.outlives && !storage.stays &&
        ((storage.first_saver < 0 && storage.rerun_first_saver < 0) || waits_on_host(storage)))
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
void Graph<N>::drop_unread_choices() {
  for (Storage& storage : storages_)
    if (stays_unread(storage)) storage.stays = operators_[at(storage.made_by)].stays = false;
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
        // The nodes of the first run are those that run backward, and what they have as attributes stays theirs.
        if (operation.saved_by_node && !regions_[at(here)].reentrant)
          keep(storage.first_saver, i);
        else if (made_in == here)
          keep(storage.rerun_first_saver, i);
      } else if (made_in >= 0 && regions_[at(made_in)].discards_output &&
                 is_recorded(regions_[at(made_in)])) {
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
    // A checkpoint that is not reentrant runs again when backward first asks for something kept, if only a weight.
    const auto asks = [&](const Operator& operation) {
      return operation.recorded && !operation.saved_by_node &&
             (!operation.saved.empty() || operation.arithmetic.some());
    };
    while (region.early_stop && rerun.trigger > region.begin &&
           !asks(operators_[at(rerun.trigger)]))
      --rerun.trigger;
    rerun.end = region.early_stop ? region.begin : region.end;
    for (int i = 0; i < size(); ++i) {
      const Operator& operation = operators_[at(i)];
      if (!operation.recorded) continue;
      if (region_at(i) == static_cast<int>(r) && !operation.saved.empty() &&
          !operation.saved_by_node)
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
    // What Python holds it holds again.
    storage.rerun_last_use =
        region_at(storage.last_use) == made_in ? storage.last_use : storage.made_by;
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

template class Graph<Checked>;
template class Graph<Traced>;

}  // namespace steelyard
