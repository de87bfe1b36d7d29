// What an optimizer keeps of each parameter, what its step needs beside that, and where both are: whole, cut over ranks, paged,
// or on the host.
#include <algorithm>
#include <utility>

#include "engine/engine.h"
#include "recipe/optimizer.h"

namespace steelyard {

// Slots of the optimizer for every unit: each state tensor rounded on its own.
template <class N>
typename EngineModel<N>::StateSlots EngineModel<N>::state_slots(Sharding sharding,
                                                                const ShardRanks& ranks,
                                                                ElementType stepped, Tensors which,
                                                                const PartsOf& parts_of) {
  const Optimizer& optimizer = job_.training.optimizer;
  StateSlots states;
  struct Sum {
    N elements{};
    TensorSum tensors;
    ElementType type = ElementType::kFloat32;
  };
  const std::vector<const Unit<N>*> units = all_units(Of::kTrained);
  std::vector<std::vector<Sum>> sums(optimizer.slots.size(),
                                     std::vector<Sum>(units.size(), Sum{N{}, book_.tensor_sum()}));
  paged_.assign(units.size(), Bytes{});
  for (std::size_t u = 0; u < units.size(); ++u) {
    const auto add_states = [&](const TensorShare<N>& share, const std::vector<std::int64_t>& shape,
                                const N& cut, std::int64_t tensors, std::int64_t place) {
      for (const StateTensor& state : state_tensors(optimizer, *share.tensor, shape, stepped)) {
        const Checked copies = Checked(state.count) * Checked(tensors);
        const Bytes each = allocated_size(bytes_of(Elements(Checked(state.elements)), state.type));
        if (state.paged) {  // managed memory: on the host, outside PyTorch's allocator
          paged_[u] += each * copies;
          continue;
        }
        Sum& sum = sums[static_cast<std::size_t>(state.slot - optimizer.slots.data())][u];
        sum.type = state.type;
        // A slot of one value for each parameter has the parameter's own formula.
        sum.elements = sum.elements +
                       N(copies.value()) *
                           (state.slot->extent == SlotExtent::kParameter ? cut : N(state.elements));
        sum.tensors.add(each, tensors, place, state.count);
      }
    };
    std::int64_t next = 0;
    for (const TensorShare<N>& share : units[u]->tensors) {
      const std::int64_t place = next;
      next += share.copies;
      if (!share.trainable || !is_meant(share, which)) continue;
      if (parts_of) {
        std::int64_t at = place;
        for (const std::int64_t part : parts_of(share)) {
          if (part > 0)
            add_states(share, {part},
                       part == plain(share.elements)
                           ? share.elements
                           : Workbook<N>::counted("part of a tensor", part),
                       1, at);
          ++at;
        }
        continue;
      }
      std::vector<std::int64_t> shape = share.shape;
      N cut = share.elements;
      if (sharding == Sharding::kRows && !shape.empty()) {
        cut = padded_shard(share, ranks);
        shape[0] = ceil_divide(Checked(shape[0]), Checked(share.ranks(ranks))).value();
      } else if (sharding == Sharding::kFlat) {
        cut = flat_shard(share, ranks);
        shape = {plain(cut)};
      }
      add_states(share, shape, cut, share.copies, place);
    }
  }
  for (std::size_t slot = 0; slot < optimizer.slots.size(); ++slot) {
    SlotSet set;
    for (std::size_t u = 0; u < units.size(); ++u) {
      const Sum& sum = sums[slot][u];
      set.slots.push_back(
          sum.tensors.bytes() == Bytes{}
              ? -1
              : book_.slot_of_tensors(
                    {units[u]->name, optimizer.slots[slot].name.c_str(), "optimizer.state"},
                    Pile::kOptimizerMoments, sum.elements, sum.type, sum.tensors));
    }
    if (optimizer.slots[slot].extent == SlotExtent::kBlock) states.quantised.push_back(slot);
    states.sets.push_back(std::move(set));
  }
  if (!states.quantised.empty())
    states.value_table =
        book_.slot({"optimizer", "values of 8 bits", "optimizer.value-table"},
                   Pile::kOptimizerMoments, N(kValuesOf8Bits), ElementType::kFloat32);
  const OptimizerForm form = form_of(job_.training);
  const bool torch_optimizer =
      job_.engine != Engine::kMegatron && job_.engine != Engine::kDeepSpeed;
  if (torch_optimizer && counts_steps_on_device(job_.training)) {
    SlotSet steps;
    for (const Unit<N>* unit : units) {
      std::int64_t tensors = parts_of ? 0 : unit->tensor_count;
      for (const TensorShare<N>& share : unit->tensors)
        if (parts_of)
          for (const std::int64_t part : parts_of(share)) tensors += part > 0 ? 1 : 0;
      TensorSum counters = book_.tensor_sum();
      counters.add(Bytes(kAllocationGranularity), tensors, 0);
      steps.slots.push_back(book_.slot_of_tensors(
          {unit->name, "step counters", "optimizer.step-on-device"}, Pile::kOptimizerMoments,
          N(tensors), ElementType::kFloat32, std::move(counters)));
    }
    states.sets.insert(states.sets.begin(), std::move(steps));
  }
  // An optimizer makes the states of one parameter, then those of the next.
  for (std::size_t u = 0; u < units.size(); ++u) {
    std::vector<SlotId> of_unit;
    for (const SlotSet& set : states.sets)
      if (set.slots[u] >= 0) of_unit.push_back(set.slots[u]);
    book_.weave(of_unit);
  }
  // The list of square roots that foreach Adam makes is as large as its second moments.
  if (form == OptimizerForm::kForeach && optimizer.foreach_list_of_second_moment > 0 &&
      optimizer.slots.size() >= 2) {
    SlotSet list;
    for (std::size_t u = 0; u < units.size(); ++u) {
      const Sum& sum = sums[1][u];
      list.slots.push_back(book_.slot_of_tensors(
          {units[u]->name, "square roots of the second moment", "optimizer.foreach-list"},
          Pile::kTemporary, sum.elements, sum.type, sum.tensors));
    }
    states.second_moment = std::move(list);
  }
  if (form == OptimizerForm::kLoop) {
    loop_temporary_ = {};
    for (const Unit<N>* unit : units)
      loop_temporary_.slots.push_back(loop_temporary(*unit, sharding, ranks, stepped, parts_of));
  }
  return states;
}

// One tensor at a time: so many times the largest, and for Muon the matrices of its Newton-Schulz iteration.
template <class N>
SlotId EngineModel<N>::loop_temporary(const Unit<N>& unit, Sharding sharding,
                                      const ShardRanks& ranks, ElementType stepped,
                                      const PartsOf& parts_of) {
  const Optimizer& optimizer = job_.training.optimizer;
  const ElementType type = optimizer.temporary_type.value_or(stepped);
  Checked times(static_cast<std::int64_t>(optimizer.loop_largest_tensor));
  if (bits_of(stepped) < bits_of(type)) times += Checked(optimizer.loop_widened_copies);
  const auto part = [&](const TensorShare<N>& share) {
    const Checked size = plain(share.elements);
    if (parts_of) {
      const std::vector<std::int64_t> parts = parts_of(share);
      return parts.empty() ? Checked(0) : Checked(*std::max_element(parts.begin(), parts.end()));
    }
    return sharding == Sharding::kWhole ? size : ceil_divide(size, Checked(share.ranks(ranks)));
  };
  const auto rounded = [&](Checked elements) {
    return allocated_size(bytes_of(Elements(elements), type));
  };
  // The tensor before: for the first one of a layer it stands in the layer before.
  Checked before = unit.tensors.size() < 2 ? Checked(0) : part(unit.tensors.back());
  // Two towers that are compared begin with a number of the model's own, the scale of their products.
  if (contrasts(*job_.model) && std::string_view(unit.name) == "embedding") before = Checked(1);
  Checked elements = 0;
  TensorSum most = book_.tensor_sum();
  for (const TensorShare<N>& share : unit.tensors) {
    const Checked size = part(share);
    if (share.copies > 1) before = size;
    const bool matrix = share.shape.size() >= 2;
    Checked needed = times * size;
    TensorSum with_rest = book_.tensor_sum();
    if (matrix && share.tensor->role == TensorRole::kMatrix) {
      const Checked shorter = std::min(share.shape[0], share.shape[1]);
      const Checked iteration =
          Checked(static_cast<std::int64_t>(optimizer.newton_schulz_largest_matrix)) * size +
          Checked(static_cast<std::int64_t>(optimizer.newton_schulz_largest_gram)) * shorter *
              shorter;
      if (rounded(size) * times < rounded(iteration)) with_rest.add(rounded(iteration), 1, 0);
      needed = std::max(needed, iteration);
    }
    if (with_rest.bytes() == Bytes{}) with_rest.add(rounded(size), times.value(), 0);
    if (optimizer.loop_keeps_last) {
      const bool factors = optimizer.loop_factors && matrix && sharding != Sharding::kFlat;
      const Checked rows = factors ? size / Checked(share.shape.back()) : Checked(0);
      const Checked columns = factors ? Checked(share.shape.back()) : Checked(0);
      if (rounded(rows) + rounded(columns) < rounded(before)) {
        with_rest.add(rounded(before), 1, 0);
      } else {
        with_rest.add(rounded(rows), 1, 0);
        with_rest.add(rounded(columns), 1, 0);
      }
      needed += std::max(rows + columns, before);
    }
    if (most.bytes() < with_rest.bytes()) {
      most = with_rest;
      elements = needed;
    }
    before = size;
  }
  return book_.slot_of_tensors(
      {unit.name, "temporaries of the largest tensor", "optimizer.loop-temporary"},
      Pile::kTemporary, N(elements.value()), type, std::move(most));
}

template <class N>
Bytes EngineModel<N>::paged_states(const Stage<N>& stage) const {
  Bytes sum{};
  const std::vector<std::int64_t>& count = counts(stage);
  for (std::size_t u = 0; u < paged_.size(); ++u) sum += paged_[u] * Checked(count[u]);
  return sum;
}

template <class N>
Bytes EngineModel<N>::state_bytes(const StateSlots& states, const Stage<N>& stage) const {
  Bytes sum{};
  const std::vector<std::int64_t>& count = counts(stage);
  for (const SlotSet& set : states.sets)
    for (std::size_t unit = 0; unit < set.slots.size(); ++unit)
      if (count[unit] > 0 && set.slots[unit] >= 0)
        sum += book_.program.slot_at(set.slots[unit]).bytes * Checked(count[unit]);
  return sum;
}

template <class N>
void EngineModel<N>::hold_states(const StateSlots& states, const Stage<N>& stage,
                                 Events& events) const {
  const std::vector<std::int64_t>& count = counts(stage);
  // Made with the first tensor that is kept in 8 bits.
  for (const std::size_t scales : states.quantised)
    for (std::size_t unit = 0; unit < count.size(); ++unit)
      if (count[unit] > 0 && states.sets[scales].slots[unit] >= 0) {
        events.push_back({states.value_table, 1});
        break;
      }
  for (std::size_t unit = 0; unit < count.size(); ++unit)
    for (const SlotSet& set : states.sets)
      if (count[unit] > 0 && set.slots[unit] >= 0)
        events.push_back({set.slots[unit], static_cast<std::int32_t>(count[unit])});
}

template <class N>
int EngineModel<N>::largest_loop_unit(const Stage<N>& stage) const {
  const std::vector<std::int64_t>& count = counts(stage);
  int largest = -1;
  Bytes bytes{};
  for (std::size_t u = 0; u < loop_temporary_.slots.size(); ++u) {
    const Bytes of_unit = book_.program.slot_at(loop_temporary_.slots[u]).bytes;
    if (count[u] == 0 || of_unit <= bytes) continue;
    largest = static_cast<int>(u);
    bytes = of_unit;
  }
  return largest;
}

template <class N>
typename EngineModel<N>::Events EngineModel<N>::states_behind_largest(const Stage<N>& stage,
                                                                      Events& states) const {
  Events late;
  if (!job_.training.optimizer.states_in_turn || makes_states_at_load()) return late;
  const int largest = largest_loop_unit(stage);
  if (largest < 0) return late;
  // The order of parameters: embedding, layers, head. Its place among the layers is not told apart.
  const auto place = [](std::string_view owner) {
    return owner == "embedding" ? 0 : owner == "layer" ? 1 : 2;
  };
  const int last = place(all_units(Of::kTrained)[static_cast<std::size_t>(largest)]->name);
  Events early;
  for (const Event& event : states) {
    // Gradients that wait for the step are there before any state is made.
    const Slot& slot = book_.program.slot_at(event.slot);
    const bool is_early = slot.pile == Pile::kGradients || place(slot.owner) <= last;
    (is_early ? early : late).push_back(event);
  }
  states = std::move(early);
  return late;
}

template <class N>
void EngineModel<N>::step_temporaries(const StateSlots& states, const Stage<N>& stage,
                                      Events& events) {
  switch (form_of(job_.training)) {
    case OptimizerForm::kFused:
      return;
    case OptimizerForm::kForeach:
      if (states.second_moment.slots.empty()) return;
      hold(states.second_moment, stage, events, job_.foreach_lists);
      hold(states.second_moment, stage, events, -job_.foreach_lists);
      return;
    case OptimizerForm::kLoop: {
      // one tensor at a time; the largest decides
      const int unit = largest_loop_unit(stage);
      if (unit < 0) return;
      const SlotId largest = loop_temporary_.slots[static_cast<std::size_t>(unit)];
      events.push_back({largest, 1});
      events.push_back({largest, -1});
      return;
    }
  }
}

template class EngineModel<Checked>;
template class EngineModel<Traced>;

}  // namespace steelyard
