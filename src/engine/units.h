// The parameters of one stage, in the units that engines handle: the embedding, each kind of layer, the head.
//
//   unit "layer"   9 tensors, 218,112,000 elements on this rank after tensor parallelism
//     self_attn.q_proj.weight   h·a/t
//
// A unit knows its tensors on this rank and adds up what engines allocate for them, rounding each tensor as the
// allocator does.
#pragma once

#include <vector>

#include "job/job.h"
#include "ledger/workbook.h"
#include "model/architecture.h"

namespace steelyard {

// How many ranks share the gradients and states of a tensor. Those of experts are fewer where experts stand on several
// ranks (Megatron's expert-data group, torchtitan's "efsdp" mesh).
struct ShardRanks {
  std::int64_t dense = 1;
  std::int64_t of_experts = 1;

  constexpr ShardRanks(std::int64_t all = 1) : dense(all), of_experts(all) {}  // NOLINT: usual
  constexpr ShardRanks(std::int64_t of_dense, std::int64_t experts)
      : dense(of_dense), of_experts(experts) {}
};

template <class N>
struct TensorShare {
  const ParameterTensor* tensor = nullptr;
  N elements{};                     // of one copy, on this rank
  N first_dimension{};              // rows of one copy on this rank
  std::int64_t copies = 1;          // equal tensors
  std::vector<std::int64_t> shape;  // on this rank
  bool trainable = true;

  bool of_experts() const { return tensor->routed_expert; }
  std::int64_t ranks(const ShardRanks& shared) const {
    return of_experts() ? shared.of_experts : shared.dense;
  }
};

template <class N>
struct Unit {
  const char* name = "";
  std::vector<TensorShare<N>> tensors;
  N elements{};         // all tensors and copies
  N expert_elements{};  // of these, of routed experts
  std::int64_t tensor_count = 0;

  std::int64_t largest() const;  // elements of the largest tensor
};

// One unit of all.
template <class N>
Unit<N> joined(const char* name, const std::vector<const Unit<N>*>& units);

// Each tensor rounded to 512 bytes on its own. All of these add to `sum`, which says whether it lists what it is given.
template <class N>
TensorSum whole_tensors(const Unit<N>& unit, ElementType type, TensorSum sum);

// The letter for the ranks that share a tensor: of rows W, of flattened tensors N, beside it where they hold experts.
template <class N>
N shard_symbol(const char* letter, const TensorShare<N>& share, const ShardRanks& ranks);
// One flat tensor of all: its elements on one of the ranks.
template <class N>
N flat_elements(const Unit<N>& unit, const ShardRanks& ranks);

// Rows cut into equal chunks of ceil(rows / ranks), the last ones padded (torch FSDP2: _fsdp_param.py).
template <class N>
N padded_shard(const TensorShare<N>& share, const ShardRanks& ranks);
template <class N>
N padded_shard_elements(const Unit<N>& unit, const ShardRanks& ranks);
// The same of all ranks together, and elements of the largest tensor's shard.
template <class N>
N padded_whole_elements(const Unit<N>& unit, const ShardRanks& ranks);
template <class N>
std::int64_t largest_padded_shard(const Unit<N>& unit, const ShardRanks& ranks);
template <class N>
TensorSum padded_shards(const Unit<N>& unit, const ShardRanks& ranks, ElementType type,
                        TensorSum sum);
// All chunks of one tensor in one piece.
template <class N>
TensorSum padded_wholes(const Unit<N>& unit, const ShardRanks& ranks, ElementType type,
                        TensorSum sum);

// Each tensor flattened and cut into ceil(elements / ranks) (DeepSpeed ZeRO-3, nanotron ZeRO-1).
template <class N>
N flat_shard(const TensorShare<N>& share, const ShardRanks& ranks);
template <class N>
N flat_shard_elements(const Unit<N>& unit, const ShardRanks& ranks);
template <class N>
TensorSum flat_shards(const Unit<N>& unit, const ShardRanks& ranks, ElementType type,
                      TensorSum sum);

template <class N>
struct ModelUnits {
  Unit<N> embedding;
  std::vector<Unit<N>> kinds;  // by layer kind
  Unit<N> head;  // final norm and head; without the head's weight when it is tied and here
  // Rows of the vocabulary beside these: the embedding's weight once more, for a last stage that has no embedding; or, where
  // they are divided over all stages, this one's part of both tables.
  Unit<N> vocabulary_rows;
};

// A tied head on another stage than the embedding has the weight once more; so has one that looks up further tokens.
bool head_reads_embedding(const Architecture& model);

// Quantised weights that engines divide are vectors of 16-bit elements, two or four weights in each (quant_storage of
// bitsandbytes, in the type of everything else that is divided with them).
bool packs_quantised(const Job& job);

// Which tensors of a unit are meant.
enum class Of : std::uint8_t { kAll, kTrained, kFrozen };
template <class N>
ModelUnits<N> units_of(const Job& job, Of of = Of::kAll);

}  // namespace steelyard
