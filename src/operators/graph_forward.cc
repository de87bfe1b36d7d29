// The tapes of a graph as it runs forward: operator by operator, and a region once more.
#include <algorithm>

#include "operators/graph.h"

namespace steelyard {

template <class N>
void Graph<N>::make_outputs(int i, std::vector<Event>& events) const {
  const Operator& operation = operators_[at(i)];
  for (ValueId value : operation.outputs) {
    const Storage& storage = storages_[at(values_[at(value)].storage)];
    if (storage.made_by == i) events.push_back({storage.slot, 1});
  }
  for (SlotId slot : operation.passing) events.push_back({slot, 1});
  for (SlotId slot : operation.passing) events.push_back({slot, -1});
}

template <class N>
void Graph<N>::run_forward_of(int i, std::vector<Event>& events, int left_storage) const {
  make_outputs(i, events);
  for (const Storage& storage : storages_)
    if (storage.last_use == i && (storage.first_saver < 0 || waits_on_host(storage)) &&
        !storage.stays && !storage.result && storage.released && !storage.lingers &&
        !storage.outlives && !storage.named && &storage - storages_.data() != left_storage)
      events.push_back({storage.slot, -1});
}

template <class N>
std::vector<Event> Graph<N>::forward(ValueId left) const {
  const int left_storage = left == kNoValue ? -1 : values_[at(left)].storage;
  std::vector<Event> events;
  events.reserve(operators_.size() * 4);
  for (int i = 0; i < size(); ++i) run_forward_of(i, events, left_storage);
  return events;
}

template <class N>
std::size_t Graph<N>::forward_events_before(int operation) const {
  std::vector<Event> events;
  for (int i = 0; i < operation; ++i) run_forward_of(i, events);
  return events.size();
}

template <class N>
void Graph<N>::play_again(const Region& region, const Rerun& rerun,
                          std::vector<Event>& events) const {
  for (int i = region.begin; i < rerun.end; ++i) {
    if (!operators_[at(i)].stays) make_outputs(i, events);
    for (const Storage& storage : storages_)
      if (storage.made_by >= region.begin && std::min(storage.rerun_last_use, rerun.end - 1) == i &&
          storage.made_by <= i && storage.made_by < region.end && storage.rerun_first_saver < 0 &&
          !stays_unread(storage) && !is_given_by(region, storage))
        events.push_back({storage.slot, -1});
  }
}

template class Graph<Checked>;
template class Graph<Traced>;

}  // namespace steelyard
