#include "engine/engine.h"

#include <algorithm>

#include "recipe/optimizer.h"

namespace steelyard {
namespace {

// aten/src/ATen/cuda/CublasHandlePool.cpp, getCUDABlasLtWorkspaceSize (2.11).
constexpr Bytes kCublasLtWorkspace = 1_MiB;

}  // namespace

template <class N>
EngineModel<N>::EngineModel(const EngineContext<N>& context)
    : context_(context), job_(context.job), book_(context.book), norm_(context.book) {
  const Bytes workspace = job_.cluster.device->cublas_workspace;
  workspace_ = book_.slot({"matrix products", "cuBLAS workspace", "runtime.cublas-workspace"},
                          Pile::kTemporary, N(workspace.value().value()), ElementType::kInt8);
  if (context.style.adds_biases)
    bias_workspace_ =
        book_.slot({"matrix products", "cuBLASLt workspace", "runtime.cublaslt-workspace"},
                   Pile::kTemporary, N(kCublasLtWorkspace.value().value()), ElementType::kInt8);
}

template <class N>
void EngineModel<N>::hold_forward_workspaces(Events& events) const {
  events.push_back({workspace_, 1});
  if (bias_workspace_ >= 0) events.push_back({bias_workspace_, 1});
}

template <class N>
void EngineModel<N>::hold_backward_workspaces(Events& events) const {
  events.push_back({workspace_, 1});
  // Backward adds no bias, but what it computes again does.
  if (bias_workspace_ >= 0 && job_.recompute.mode != RecomputeMode::kNone)
    events.push_back({bias_workspace_, 1});
}

template <class N>
std::vector<const Unit<N>*> EngineModel<N>::all_units(Of of) const {
  if (of == Of::kFrozen && !context_.frozen) return {};
  const ModelUnits<N>& model = of == Of::kAll       ? context_.units
                               : of == Of::kTrained ? context_.trained
                                                    : *context_.frozen;
  std::vector<const Unit<N>*> units = {&model.embedding};
  for (const Unit<N>& kind : model.kinds) units.push_back(&kind);
  units.push_back(&model.head);
  units.push_back(&model.tied_head_copy);
  return units;
}

template <class N>
bool EngineModel<N>::gradients_reach_layers(const Stage<N>& stage, int last_unit) const {
  if (last_unit < 0) return false;  // no layer runs backward
  if (stage.head && !context_.gradients_of_head.empty()) return true;
  for (std::size_t kind = 0; kind < stage.layers_of_kind.size(); ++kind)
    if (stage.layers_of_kind[kind] > 0 && !context_.gradients_of_kind[kind].empty()) return true;
  return false;
}

template <class N>
void EngineModel<N>::hold(const SlotSet& set, const Stage<N>& stage, Events& events,
                          std::int32_t times) const {
  const std::vector<std::int64_t>& count = counts(stage);
  for (std::size_t unit = 0; unit < set.slots.size(); ++unit)
    if (count[unit] > 0 && set.slots[unit] >= 0)
      events.push_back({set.slots[unit], static_cast<std::int32_t>(count[unit]) * times});
}

template <class N>
SlotSet EngineModel<N>::whole_set(const char* name, const char* rule, Pile pile, ElementType type,
                                  Of of) {
  SlotSet set;
  for (const Unit<N>* unit : all_units(of))
    set.slots.push_back(book_.slot_of_bytes({unit->name, name, rule}, pile, unit->elements, type,
                                            rounded_bytes(*unit, type)));
  return set;
}

template <class N>
SlotSet EngineModel<N>::sharded_set(const char* name, const char* rule, Pile pile, ElementType type,
                                    Sharding sharding, std::int64_t ranks) {
  if (sharding == Sharding::kWhole) return whole_set(name, rule, pile, type);
  SlotSet set;
  for (const Unit<N>* unit : all_units(of_pile(pile))) {
    const bool rows = sharding == Sharding::kRows;
    const N elements =
        rows ? padded_shard_elements(*unit, ranks) : flat_shard_elements(*unit, ranks);
    const Bytes bytes =
        rows ? padded_shard_bytes(*unit, ranks, type) : flat_shard_bytes(*unit, ranks, type);
    set.slots.push_back(book_.slot_of_bytes({unit->name, name, rule}, pile, elements, type, bytes));
  }
  return set;
}

template <class N>
SlotSet EngineModel<N>::flat_set(const char* name, const char* rule, Pile pile, ElementType type,
                                 std::int64_t divided_by, Of of) {
  SlotSet set;
  for (const Unit<N>* unit : all_units(of))
    set.slots.push_back(book_.slot(
        {unit->name, name, rule}, pile,
        divided_by > 1 ? ceil_divide(unit->elements, Workbook<N>::symbol("N", divided_by))
                       : unit->elements,
        type));
  return set;
}

// Slots of the optimizer for every unit: each state tensor rounded on its own.
template <class N>
typename EngineModel<N>::StateSlots EngineModel<N>::state_slots(Sharding sharding,
                                                                std::int64_t ranks,
                                                                ElementType stepped) {
  const Optimizer& optimizer = job_.training.optimizer;
  StateSlots states;
  struct Sum {
    N elements{};
    Bytes bytes{};
    ElementType type = ElementType::kFloat32;
  };
  const std::vector<const Unit<N>*> units = all_units(Of::kTrained);
  std::vector<std::vector<Sum>> sums(optimizer.slots.size(), std::vector<Sum>(units.size()));
  paged_.assign(units.size(), Bytes{});
  for (std::size_t u = 0; u < units.size(); ++u)
    for (const TensorShare<N>& share : units[u]->tensors) {
      if (!share.trainable) continue;
      std::vector<std::int64_t> shape = share.shape;
      N cut = share.elements;
      if (sharding == Sharding::kRows && !shape.empty()) {
        cut = ceil_divide(share.first_dimension, Workbook<N>::symbol("W", ranks)) *
              (share.elements / share.first_dimension);
        shape[0] = ceil_divide(Checked(shape[0]), Checked(ranks)).value();
      } else if (sharding == Sharding::kFlat) {
        cut = ceil_divide(share.elements, Workbook<N>::symbol("N", ranks));
        shape = {plain(cut)};
      }
      for (const StateTensor& state : state_tensors(optimizer, *share.tensor, shape, stepped)) {
        const Checked copies = Checked(state.count) * Checked(share.copies);
        const Bytes bytes =
            allocated_size(bytes_of(Elements(Checked(state.elements)), state.type)) * copies;
        if (state.paged) {  // managed memory: on the host, outside PyTorch's allocator
          paged_[u] += bytes;
          continue;
        }
        Sum& sum = sums[static_cast<std::size_t>(state.slot - optimizer.slots.data())][u];
        sum.type = state.type;
        // A slot of one value for each parameter has the parameter's own formula.
        sum.elements = sum.elements +
                       N(copies.value()) *
                           (state.slot->extent == SlotExtent::kParameter ? cut : N(state.elements));
        sum.bytes += bytes;
      }
    }
  for (std::size_t slot = 0; slot < optimizer.slots.size(); ++slot) {
    SlotSet set;
    for (std::size_t u = 0; u < units.size(); ++u) {
      const Sum& sum = sums[slot][u];
      set.slots.push_back(
          sum.bytes == Bytes{}
              ? -1
              : book_.slot_of_bytes(
                    {units[u]->name, optimizer.slots[slot].name.c_str(), "optimizer.state"},
                    Pile::kOptimizerMoments, sum.elements, sum.type, sum.bytes));
    }
    states.sets.push_back(std::move(set));
  }
  const OptimizerForm form = form_of(job_.training);
  const bool torch_optimizer =
      job_.engine != Engine::kMegatron && job_.engine != Engine::kDeepSpeed;
  if (form == OptimizerForm::kFused && optimizer.step_on_device_when_fused && torch_optimizer) {
    SlotSet steps;
    for (const Unit<N>* unit : units)
      steps.slots.push_back(book_.slot_of_bytes(
          {unit->name, "step counters", "optimizer.step-on-device"}, Pile::kOptimizerMoments,
          N(unit->tensor_count), ElementType::kFloat32,
          Bytes(Checked(kAllocationGranularity) * Checked(unit->tensor_count))));
    states.sets.push_back(std::move(steps));
  }
  // The list of square roots that foreach Adam makes is as large as its second moments.
  if (form == OptimizerForm::kForeach && optimizer.foreach_list_of_second_moment > 0 &&
      optimizer.slots.size() >= 2) {
    SlotSet list;
    for (std::size_t u = 0; u < units.size(); ++u) {
      const Sum& sum = sums[1][u];
      list.slots.push_back(book_.slot_of_bytes(
          {units[u]->name, "square roots of the second moment", "optimizer.foreach-list"},
          Pile::kTemporary, sum.elements, sum.type, sum.bytes));
    }
    states.second_moment = std::move(list);
  }
  if (form == OptimizerForm::kLoop) {
    loop_temporary_ = {};
    for (const Unit<N>* unit : units)
      loop_temporary_.slots.push_back(loop_temporary(*unit, sharding, ranks, stepped));
  }
  return states;
}

// One tensor at a time: so many times the largest, and for Muon the matrices of its Newton-Schulz iteration.
template <class N>
SlotId EngineModel<N>::loop_temporary(const Unit<N>& unit, Sharding sharding, std::int64_t ranks,
                                      ElementType stepped) {
  const Optimizer& optimizer = job_.training.optimizer;
  const ElementType type = optimizer.temporary_type.value_or(stepped);
  Checked times(static_cast<std::int64_t>(optimizer.loop_largest_tensor));
  if (bits_of(stepped) < bits_of(type)) times += Checked(optimizer.loop_widened_copies);
  const auto part = [&](const TensorShare<N>& share) {
    const Checked size = plain(share.elements);
    return sharding == Sharding::kWhole ? size : ceil_divide(size, Checked(ranks));
  };
  const auto rounded = [&](Checked elements) {
    return allocated_size(bytes_of(Elements(elements), type));
  };
  // The tensor before: for the first one of a layer it stands in the layer before.
  Checked before = unit.tensors.size() < 2 ? Checked(0) : part(unit.tensors.back());
  Checked elements = 0;
  Bytes bytes{};
  for (const TensorShare<N>& share : unit.tensors) {
    const Checked size = part(share);
    if (share.copies > 1) before = size;
    const bool matrix = share.shape.size() >= 2;
    Checked needed = times * size;
    Bytes with_rest = rounded(size) * times;
    if (matrix && share.tensor->role == TensorRole::kMatrix) {
      const Checked shorter = std::min(share.shape[0], share.shape[1]);
      const Checked iteration =
          Checked(static_cast<std::int64_t>(optimizer.newton_schulz_largest_matrix)) * size +
          Checked(static_cast<std::int64_t>(optimizer.newton_schulz_largest_gram)) * shorter *
              shorter;
      needed = std::max(needed, iteration);
      with_rest = std::max(with_rest, rounded(iteration));
    }
    if (optimizer.loop_keeps_last) {
      const bool factors = optimizer.loop_factors && matrix && sharding != Sharding::kFlat;
      const Checked rows = factors ? size / Checked(share.shape.back()) : Checked(0);
      const Checked columns = factors ? Checked(share.shape.back()) : Checked(0);
      with_rest += std::max(rounded(rows) + rounded(columns), rounded(before));
      needed += std::max(rows + columns, before);
    }
    if (bytes < with_rest) {
      bytes = with_rest;
      elements = needed;
    }
    before = size;
  }
  return book_.slot_of_bytes(
      {unit.name, "temporaries of the largest tensor", "optimizer.loop-temporary"},
      Pile::kTemporary, N(elements.value()), type, bytes);
}

OptimizerForm form_of(const Training& training) {
  if (training.optimizer.only_form == "loop") return OptimizerForm::kLoop;
  if (training.optimizer.only_form == "fused") return OptimizerForm::kFused;
  return training.optimizer_form;
}

template <class N>
void EngineModel<N>::free_gradients(const Stage<N>& stage, Events& events) const {
  if (stage.embedding)
    for (SlotId gradient : context_.gradients_of_embedding) events.push_back({gradient, -1});
  for (std::size_t kind = 0; kind < stage.layers_of_kind.size(); ++kind)
    if (stage.layers_of_kind[kind] > 0)
      for (SlotId gradient : context_.gradients_of_kind[kind])
        events.push_back({gradient, static_cast<std::int32_t>(-stage.layers_of_kind[kind])});
  if (stage.head)
    for (SlotId gradient : context_.gradients_of_head) events.push_back({gradient, -1});
}

template <class N>
Bytes EngineModel<N>::paged_states(const Stage<N>& stage) const {
  Bytes sum{};
  const std::vector<std::int64_t>& count = counts(stage);
  for (std::size_t u = 0; u < paged_.size(); ++u) sum += paged_[u] * Checked(count[u]);
  return sum;
}

template <class N>
void EngineModel<N>::hold_states(const StateSlots& states, const Stage<N>& stage,
                                 Events& events) const {
  for (const SlotSet& set : states.sets) hold(set, stage, events);
}

template <class N>
std::int64_t EngineModel<N>::trained_tensors(const Stage<N>& stage, bool tied_copy) const {
  const std::vector<std::int64_t>& count = counts(stage);
  const std::vector<const Unit<N>*> units = all_units(Of::kTrained);
  std::int64_t tensors = 0;
  for (std::size_t unit = 0; unit + (tied_copy ? 0 : 1) < units.size(); ++unit)
    tensors += count[unit] * units[unit]->tensor_count;
  return tensors;
}

template <class N>
std::int64_t EngineModel<N>::largest_tensor(const Stage<N>& stage, Of of) const {
  const std::vector<std::int64_t>& count = counts(stage);
  const std::vector<const Unit<N>*> units = all_units(of);
  std::int64_t largest = 0;
  for (std::size_t unit = 0; unit < units.size(); ++unit)
    if (count[unit] > 0) largest = std::max(largest, units[unit]->largest());
  return largest;
}

template <class N>
void EngineModel<N>::clip_by_foreach(const Stage<N>& stage, std::int64_t largest, ElementType type,
                                     Events& events) {
  norm_.by_foreach(trained_tensors(stage), largest, type, events);
  norm_.numbers(3, events);  // norm + 1e-6, its reciprocal, the factor; then the factor, limited
}

template <class N>
void EngineModel<N>::step_temporaries(const StateSlots& states, const Stage<N>& stage,
                                      Events& events) {
  switch (form_of(job_.training)) {
    case OptimizerForm::kFused:
      return;
    case OptimizerForm::kForeach:
      if (states.second_moment.slots.empty()) return;
      hold(states.second_moment, stage, events, 1);
      hold(states.second_moment, stage, events, -1);
      return;
    case OptimizerForm::kLoop: {
      // one tensor at a time; the largest decides
      const std::vector<std::int64_t>& count = counts(stage);
      SlotId largest = -1;
      for (std::size_t u = 0; u < loop_temporary_.slots.size(); ++u)
        if (count[u] > 0 && (largest < 0 || book_.program.slot_at(loop_temporary_.slots[u]).bytes >
                                                book_.program.slot_at(largest).bytes))
          largest = loop_temporary_.slots[u];
      if (largest < 0 || book_.program.slot_at(largest).bytes == Bytes{}) return;
      events.push_back({largest, 1});
      events.push_back({largest, -1});
      return;
    }
  }
}

template <class N>
std::unique_ptr<EngineModel<N>> make_engine(const EngineContext<N>& context) {
  switch (context.job.engine) {
    case Engine::kDdp:
      return make_ddp(context);
    case Engine::kFsdp1:
      return make_fsdp1(context);
    case Engine::kFsdp2:
      return is_unsharded_fsdp2(context.job) ? make_ddp(context) : make_fsdp2(context);
    case Engine::kDeepSpeed:
      return make_deepspeed(context);
    case Engine::kMegatron:
      return make_megatron(context);
    case Engine::kNanotron:
      return make_nanotron(context);
  }
  return nullptr;
}

template class EngineModel<Checked>;
template class EngineModel<Traced>;
template std::unique_ptr<EngineModel<Checked>> make_engine(const EngineContext<Checked>&);
template std::unique_ptr<EngineModel<Traced>> make_engine(const EngineContext<Traced>&);

}  // namespace steelyard
