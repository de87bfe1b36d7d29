// What is frozen beside adapters, by the type in which it is kept; weights of 4 and 8 bits with their constants.
#include <algorithm>
#include <utility>

#include "engine/engine.h"
#include "recipe/quantised.h"

namespace steelyard {
namespace {

struct Kept {
  const char* name;
  const char* rule;
};
Kept kept_as(ElementType type) {
  if (type == ElementType::kNormalFloat4) return {"frozen weights, nf4", "quantised.nf4-weights"};
  if (type == ElementType::kInt8) return {"frozen weights, int8", "quantised.int8-weights"};
  return {"frozen parameters", "parameters.frozen"};
}

// Of which type a tensor is here: what is quantised and divided is packed into the type of everything else.
template <class N>
ElementType type_of(const TensorShare<N>& share, ElementType otherwise, bool packed) {
  const ElementType type = share.tensor->stored.value_or(otherwise);
  return packed && is_quantised(type) ? otherwise : type;
}

template <class N>
Unit<N> only(const Unit<N>& unit, ElementType type, ElementType otherwise, bool packed) {
  Unit<N> part;
  part.name = unit.name;
  for (const TensorShare<N>& share : unit.tensors) {
    if (type_of(share, otherwise, packed) != type) continue;
    part.tensors.push_back(share);
    part.elements = part.elements + N(share.copies) * share.elements;
    part.tensor_count += share.copies;
  }
  return part;
}

}  // namespace

template <class N>
std::vector<SlotSet> EngineModel<N>::frozen_sets(ElementType otherwise, Sharding sharding,
                                                 const ShardRanks& ranks) {
  const std::vector<const Unit<N>*> units = all_units(Of::kFrozen);
  const bool packed = packs_quantised(job_);
  std::vector<ElementType> types;
  for (const Unit<N>* unit : units)
    for (const TensorShare<N>& share : unit->tensors) {
      const ElementType type = type_of(share, otherwise, packed);
      if (std::find(types.begin(), types.end(), type) == types.end()) types.push_back(type);
    }
  std::vector<SlotSet> sets;
  for (const ElementType type : types) {
    const Kept kept = kept_as(type);
    SlotSet weights;
    for (const Unit<N>* unit : units) {
      const Unit<N> part = only(*unit, type, otherwise, packed);
      const bool rows = sharding == Sharding::kRows;
      const bool whole = sharding == Sharding::kWhole;
      const N elements = whole  ? part.elements
                         : rows ? padded_shard_elements(part, ranks)
                                : flat_shard_elements(part, ranks);
      if (part.tensor_count == 0) {
        weights.slots.push_back(-1);
        continue;
      }
      const TensorSum sum = book_.tensor_sum();
      weights.slots.push_back(book_.slot_of_tensors({part.name, kept.name, kept.rule},
                                                    Pile::kParameters, elements, type,
                                                    whole  ? whole_tensors(part, type, sum)
                                                    : rows ? padded_shards(part, ranks, type, sum)
                                                           : flat_shards(part, ranks, type, sum)));
    }
    sets.push_back(std::move(weights));
  }
  for (SlotSet& set : constants_sets()) sets.push_back(std::move(set));
  return sets;
}

template <class N>
std::vector<SlotSet> EngineModel<N>::constants_sets() {
  std::vector<SlotSet> sets;
  if (!job_.adapter) return sets;
  const Adapter& adapter = *job_.adapter;
  if (job_.implementation == Implementation::kTorchtune &&
      adapter.linear == ElementType::kNormalFloat4) {
    for (const QuantisationConstants& constants :
         quantisation_constants_of_torchao(job_.training.precision.compute))
      sets.push_back(constants_set(constants));
    return sets;
  }
  for (const QuantisationConstants& constants :
       quantisation_constants(adapter.linear, adapter.double_quantization))
    sets.push_back(constants_set(constants));
  if (job_.adapter->double_quantization) {  // bitsandbytes keeps one for all to copy from
    SlotSet once;
    once.slots.assign(all_units(Of::kFrozen).size(), -1);
    once.slots.front() = book_.slot(
        {"quantised weights", "values of the 8-bit code", "quantised.double-quantisation"},
        Pile::kParameters, N(256), ElementType::kFloat32);
    sets.push_back(std::move(once));
  }
  return sets;
}

template <class N>
N EngineModel<N>::constant_elements(const QuantisationConstants& constants,
                                    const TensorShare<N>& share) const {
  if (constants.by_row) return N(share.tensor->shape.front());
  if (constants.block == 0) return N(constants.count);
  const std::int64_t packed =
      packs_quantised(job_) ? 16 / bits_of(job_.adapter->linear) : std::int64_t{1};
  return ceil_divide(share.elements * N(packed), N(constants.block));
}

template <class N>
SlotSet EngineModel<N>::constants_set(const QuantisationConstants& constants) {
  SlotSet set;
  for (const Unit<N>* unit : all_units(Of::kFrozen)) {
    N elements{};
    TensorSum sum = book_.tensor_sum();
    std::int64_t place = 0;
    for (const TensorShare<N>& share : unit->tensors) {
      place += share.copies;
      if (!share.tensor->stored || !is_quantised(*share.tensor->stored)) continue;
      const N here = constant_elements(constants, share);
      elements = elements + N(share.copies) * here;
      sum.add(allocated_size(bytes_of(Elements(Checked(plain(here))), constants.type)),
              share.copies, place - share.copies);
    }
    set.slots.push_back(sum.bytes() == Bytes{}
                            ? -1
                            : book_.slot_of_tensors({unit->name, constants.name, constants.rule},
                                                    Pile::kParameters, elements, constants.type,
                                                    std::move(sum)));
  }
  return set;
}

template class EngineModel<Checked>;
template class EngineModel<Traced>;

}  // namespace steelyard
