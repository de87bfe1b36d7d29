// What waits on the host between forward and backward: copies that come back when they are asked for.
#include <algorithm>

#include "operators/graph.h"

namespace steelyard {

template <class N>
bool Graph<N>::is_read_by(const Region& region, std::size_t storage) const {
  for (int i = region.begin; i < region.end; ++i)
    for (ValueId value : operators_[at(i)].inputs)
      if (values_[at(value)].storage == static_cast<int>(storage)) return true;
  return false;
}

template <class N>
void Graph<N>::plan_copies() {
  copies_.assign(operators_.size(), {});
  region_inputs_.assign(regions_.size(), {});
  if (!offloads_) return;
  for (int i = 0; i < size(); ++i) {
    const Operator& operation = operators_[at(i)];
    if (!operation.recorded || (region_at(i) >= 0 && is_recorded(regions_[at(region_at(i))])))
      continue;
    for (ValueId value : operation.saved) {
      const Value& saved = values_[at(value)];
      const int made_in = region_at(storages_[at(saved.storage)].made_by);
      if (made_in >= 0 && regions_[at(made_in)].discards_output) continue;  // made again instead
      const Slot& slot = book_.program.slot_at(storages_[at(saved.storage)].slot);
      // A view is sent without the rest of its storage.
      copies_[at(i)].push_back(book_.slot({slot.owner, slot.name, "offload.copy-from-host"},
                                          Pile::kTemporary, saved.elements, saved.type));
    }
    for (SlotId weight : operation.saved_weights) copies_[at(i)].push_back(weight);
  }
  for (std::size_t r = 0; r < regions_.size(); ++r) {
    if (!is_recorded(regions_[r])) continue;
    for (std::size_t s = 0; s < storages_.size(); ++s) {
      const Storage& storage = storages_[s];
      const int made_in = region_at(storage.made_by);
      if (!waits_on_host(storage) || made_in == static_cast<int>(r) || !is_read_by(regions_[r], s))
        continue;
      RegionInput input{static_cast<int>(s), -1};
      for (int i = regions_[r].end - 1; i >= regions_[r].begin; --i)
        for (ValueId value : operators_[at(i)].saved)
          if (operators_[at(i)].recorded && values_[at(value)].storage == input.storage)
            input.until = i;
      region_inputs_[r].push_back(input);
    }
  }
}

template <class N>
std::optional<std::vector<SlotId>> Graph<N>::returned_for(int operation) const {
  std::vector<SlotId> slots(copies_[at(operation)].begin(), copies_[at(operation)].end());
  bool any = !slots.empty();
  for (std::size_t r = 0; r < regions_.size(); ++r) {
    if (!is_recorded(regions_[r]) || reruns_[r].trigger != operation) continue;
    for (const RegionInput& input : region_inputs_[r]) {
      any = true;
      if (input.until < 0) slots.push_back(storages_[at(input.storage)].slot);
    }
  }
  return any ? std::optional(std::move(slots)) : std::nullopt;
}

template <class N>
std::vector<SlotId> Graph<N>::returned_last() const {
  for (int i = 0; i < size(); ++i)
    if (const std::optional<std::vector<SlotId>> slots = returned_for(i)) return *slots;
  return {};
}

template <class N>
std::vector<Bytes> Graph<N>::host_copies() const {
  std::vector<Bytes> bytes;
  for (const auto& copies : copies_)
    for (SlotId slot : copies) bytes.push_back(book_.program.slot_at(slot).bytes);
  for (const auto& inputs : region_inputs_)
    for (const RegionInput& input : inputs)
      bytes.push_back(book_.program.slot_at(storages_[at(input.storage)].slot).bytes);
  return bytes;
}

template class Graph<Checked>;
template class Graph<Traced>;

}  // namespace steelyard
