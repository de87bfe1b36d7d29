#include "engine/engine.h"

#include <utility>

namespace steelyard {
namespace {

// aten/src/ATen/cuda/CublasHandlePool.cpp, getCUDABlasLtWorkspaceSize (2.11).
constexpr Bytes kCublasLtWorkspace = 1_MiB;

}  // namespace

template <class N>
EngineModel<N>::EngineModel(const EngineContext<N>& context)
    : context_(context),
      job_(context.job),
      book_(context.book),
      norm_(context.book, context.style.multiprocessors) {
  const Bytes workspace = job_.cluster.device->cublas_workspace;
  workspace_ = book_.slot({"matrix products", "cuBLAS workspace", "runtime.cublas-workspace"},
                          Pile::kTemporary, N(workspace.value().value()), ElementType::kInt8);
  if (context.style.adds_biases || has_float8())
    lt_workspace_ =
        book_.slot({"matrix products", "cuBLASLt workspace", "runtime.cublaslt-workspace"},
                   Pile::kTemporary, N(kCublasLtWorkspace.value().value()), ElementType::kInt8);
}

template <class N>
void EngineModel<N>::hold_forward_workspaces(Events& events) const {
  events.push_back({workspace_, 1});
  // With a scale for each row forward multiplies by kernels of PyTorch's own (cuda/ScaledBlas.cpp).
  if (lt_workspace_ >= 0 && !(has_float8() && context_.style.row_scales))
    events.push_back({lt_workspace_, 1});
}

template <class N>
void EngineModel<N>::hold_backward_workspaces(Events& events) const {
  events.push_back({workspace_, 1});
  // Backward adds no bias, but what it computes again does; factors of 8 bits it has itself.
  if (lt_workspace_ >= 0 && (has_float8() || job_.recompute.mode != RecomputeMode::kNone))
    events.push_back({lt_workspace_, 1});
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
  units.push_back(&model.vocabulary_rows);
  return units;
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
  for (const Unit<N>* unit : all_units(of)) {
    if (job_.adapter && unit->tensor_count == 0) {  // most units have none beside adapters
      set.slots.push_back(-1);
      continue;
    }
    set.slots.push_back(book_.slot_of_tensors({unit->name, name, rule}, pile, unit->elements, type,
                                              whole_tensors(*unit, type, book_.tensor_sum())));
  }
  return set;
}

template <class N>
SlotSet EngineModel<N>::sharded_set(const char* name, const char* rule, Pile pile, ElementType type,
                                    Sharding sharding, const ShardRanks& ranks) {
  if (sharding == Sharding::kWhole) return whole_set(name, rule, pile, type);
  SlotSet set;
  for (const Unit<N>* unit : all_units(of_pile(pile))) {
    const bool rows = sharding == Sharding::kRows;
    const N elements =
        rows ? padded_shard_elements(*unit, ranks) : flat_shard_elements(*unit, ranks);
    set.slots.push_back(
        book_.slot_of_tensors({unit->name, name, rule}, pile, elements, type,
                              rows ? padded_shards(*unit, ranks, type, book_.tensor_sum())
                                   : flat_shards(*unit, ranks, type, book_.tensor_sum())));
  }
  return set;
}

template <class N>
SlotSet EngineModel<N>::flat_set(const char* name, const char* rule, Pile pile, ElementType type,
                                 const ShardRanks& divided_by, Of of) {
  SlotSet set;
  for (const Unit<N>* unit : all_units(of))
    set.slots.push_back(
        book_.slot({unit->name, name, rule}, pile, flat_elements(*unit, divided_by), type));
  return set;
}

// Gradients are joined as they arrive, from the last tensor to the first, until a bucket is full (reducer.cpp,
// compute_bucket_assignment_by_size, as the second forward rebuilds them). Here no bucket reaches over two units.
template <class N>
SlotSet EngineModel<N>::bucket_set(ElementType type) {
  SlotSet set;
  for (const Unit<N>* unit : all_units(Of::kTrained)) {
    TensorSum buckets = book_.tensor_sum();
    Bytes filled{};
    for (auto share = unit->tensors.rbegin(); share != unit->tensors.rend(); ++share)
      for (std::int64_t copy = 0; copy < share->copies; ++copy) {
        filled += bytes_of(Elements(Checked(plain(share->elements))), type);
        if (filled < Bytes(job_.buckets.ddp_bytes)) continue;
        buckets.add(allocated_size(filled), 1, 0);
        filled = Bytes{};
      }
    if (filled > Bytes{}) buckets.add(allocated_size(filled), 1, 0);
    set.slots.push_back(book_.slot_of_tensors({unit->name, "gradient buckets", "ddp.buckets"},
                                              Pile::kCommunication, unit->elements, type,
                                              std::move(buckets)));
  }
  return set;
}

template <class N>
N EngineModel<N>::trained_elements(const Stage<N>& stage) const {
  const std::vector<std::int64_t>& count = counts(stage);
  const std::vector<const Unit<N>*> units = all_units(Of::kTrained);
  N sum{};
  for (std::size_t unit = 0; unit < units.size(); ++unit)
    if (count[unit] > 0) sum = sum + N(count[unit]) * units[unit]->elements;
  return sum;
}

template <class N>
void EngineModel<N>::free_gradients(const Stage<N>& stage, Events& events) const {
  for (std::size_t unit = 0; unit < stage.layers_of_kind.size() + 2; ++unit)
    free_gradients_of(unit, stage, events);
}

template <class N>
void EngineModel<N>::free_gradients_of(std::size_t unit, const Stage<N>& stage,
                                       Events& events) const {
  const auto free = [&](const std::vector<SlotId>& gradients, std::int64_t times) {
    if (times == 0) return;
    for (SlotId gradient : gradients)
      events.push_back({gradient, static_cast<std::int32_t>(-times)});
  };
  const std::size_t kinds = stage.layers_of_kind.size();
  if (unit == 0) free(context_.gradients_of_embedding, stage.embedding ? 1 : 0);
  if (unit > 0 && unit <= kinds)
    free(context_.gradients_of_kind[unit - 1], stage.layers_of_kind[unit - 1]);
  if (unit == kinds + 1) free(context_.gradients_of_head, stage.head ? 1 : 0);
}

template <class N>
HostMemory EngineModel<N>::host(const Stage<N>& stage) const {
  HostMemory memory;
  memory.add("optimizer states in managed memory", "host.managed-states", HostPlace::kPageable,
             paged_states(stage));
  return memory;
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
std::int64_t EngineModel<N>::largest_bucket(const Stage<N>& stage, std::int64_t size,
                                            InBuckets order) const {
  const std::vector<std::int64_t>& count = counts(stage);
  const std::vector<const Unit<N>*> units = all_units(Of::kTrained);
  std::int64_t bucket = 0, largest = 0;
  const auto fill = [&](const TensorShare<N>& share) {
    for (std::int64_t copy = 0; copy < share.copies; ++copy) {
      bucket += plain(share.elements);
      largest = std::max(largest, bucket);
      if (bucket > size) bucket = 0;
    }
  };
  for (std::size_t unit = 0; unit < units.size(); ++unit) {
    const std::vector<TensorShare<N>>& shares = units[unit]->tensors;
    const auto fill_those = [&](bool norms) {
      for (const TensorShare<N>& share : shares)
        if ((share.shape.size() < 2) == norms) fill(share);
    };
    for (std::int64_t i = 0; i < count[unit]; ++i) {
      if (order == InBuckets::kNormsFirst) {
        fill_those(true);
        fill_those(false);
      } else {
        std::for_each(shares.begin(), shares.end(), fill);
      }
    }
  }
  return largest;
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
void EngineModel<N>::empty_cache(Events& events) {
  if (emptied_ < 0)
    emptied_ = book_.slot({"allocator", "cached segments, given back", "allocator.emptied-cache"},
                          Pile::kTemporary, N{}, ElementType::kInt8);
  events.insert(events.end(), {{emptied_, 1}, {emptied_, -1}});
}

template <class N>
void EngineModel<N>::clip_by_foreach(const Stage<N>& stage, std::int64_t largest, ElementType type,
                                     Events& events) {
  norm_.by_foreach(trained_tensors(stage), largest, type, events);
  norm_.numbers(3, events);  // norm + 1e-6, its reciprocal, the factor; then the factor, limited
  if (!loop_keeps_norm()) norm_.hold(-1, events);
}

template <class N>
std::unique_ptr<EngineModel<N>> make_engine(const EngineContext<N>& context) {
  switch (context.job.engine) {
#define ENGINE(id, name, make, ...) \
  case Engine::id:                  \
    return make(context);
#include "job/engines.def"
#undef ENGINE
  }
  return nullptr;
}

template class EngineModel<Checked>;
template class EngineModel<Traced>;
template std::unique_ptr<EngineModel<Checked>> make_engine(const EngineContext<Checked>&);
template std::unique_ptr<EngineModel<Traced>> make_engine(const EngineContext<Traced>&);

}  // namespace steelyard
