#include "engine/units.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "job/pipeline_shape.h"
#include "operators/style.h"

namespace steelyard {

namespace {

// A dimension with its letter, where the model has one for it.
template <class N>
N dimension(const Architecture& model, std::int64_t padded_rows, std::int64_t value) {
  using Book = Workbook<N>;
  if (value == padded_rows) return Book::symbol("V", value);
  if (value == model.hidden) return Book::symbol("h", value);
  if (model.adapter_rank > 0 && value == model.adapter_rank) return Book::symbol("r", value);
  if (!model.kinds.empty()) {
    const Layer& layer = usual_layer(model);
    if (const auto* attention = std::get_if<GroupedAttention>(&layer.attention)) {
      if (value == attention->heads * attention->head_width) return Book::symbol("a", value);
      if (value == attention->key_value_heads * attention->head_width)
        return Book::symbol("k", value);
    }
    if (const auto* mlp = std::get_if<DenseMlp>(&layer.mlp); mlp != nullptr && value == mlp->width)
      return Book::symbol("f", value);
    if (const auto* mlp = std::get_if<ExpertMlp>(&layer.mlp)) {
      if (value == mlp->width) return Book::symbol("M", value);
      if (value == mlp->experts) return Book::symbol("E", value);
    }
  }
  return N(value);
}

// Where the vocabulary's rows are divided over the stages: a unit of this stage's part of them, or of all else.
enum class Rows : std::uint8_t { kWithOthers, kAlone, kLeftOut };

// Megatron's layers have one weight for query, keys and values and one for gate and up (attention.py, linear_qkv; mlp.py,
// linear_fc1), and make attention's last product before the first (Attention.__init__). scaling's have one for query, keys and
// values where these are equally many (core/nn/attention/attention.py, qkv_in_one).
struct LayerTensors {
  std::vector<std::size_t> order;  // empty: as they stand
  std::vector<int> whole;          // by tensor, the one that it is a part of; -1: of none
};

LayerTensors layer_tensors(const Job& job, const Layer& layer) {
  const bool megatron = job.implementation == Implementation::kMegatron;
  if ((!megatron && job.implementation != Implementation::kScaling) || job.adapter) return {};
  LayerTensors result;
  result.order.resize(layer.parameters.size());
  std::iota(result.order.begin(), result.order.end(), std::size_t{0});
  std::vector<int>& whole = result.whole;
  whole.assign(layer.parameters.size(), -1);
  const auto at = [&](int index) -> const ParameterTensor& {
    return layer.parameters[static_cast<std::size_t>(index)];
  };
  const auto join_tensors = [&](int first, int other) {
    if (first >= 0 && other >= 0 && at(first).frozen == at(other).frozen)
      whole[static_cast<std::size_t>(other)] = first;
  };
  const auto join = [&](const std::optional<Linear>& first, const std::optional<Linear>& other) {
    if (!first || !other) return;
    join_tensors(first->weight_index, other->weight_index);
    join_tensors(first->bias_index, other->bias_index);
  };
  const auto* attention = std::get_if<GroupedAttention>(&layer.attention);
  if (attention && (megatron || attention->key_value_heads == attention->heads)) {
    join(attention->query, attention->key);
    join(attention->query, attention->value);
  }
  if (!megatron) return result;
  if (attention) {
    const Linear& output = attention->output;
    if (const auto& query = attention->query; query && query->weight_index < output.weight_index) {
      const auto at_place = [&](int index) { return result.order.begin() + index; };
      const int last = std::max(output.weight_index, output.bias_index);
      std::rotate(at_place(query->weight_index), at_place(output.weight_index), at_place(last + 1));
    }
  }
  if (const auto* dense = std::get_if<DenseMlp>(&layer.mlp)) {
    join(dense->gate, dense->up);
  } else if (const auto* experts = std::get_if<ExpertMlp>(&layer.mlp)) {
    join_tensors(experts->gate_index, experts->up_index);
    if (experts->shared) join(experts->shared->gate, experts->shared->up);
  }
  return result;
}

// `first`: the tensor that stands first in the model, where that is another than in the list.
template <class N>
Unit<N> make_unit(const Job& job, const char* name, const std::vector<ParameterTensor>& tensors,
                  Of of, std::size_t first = 0, Rows of_vocabulary_rows = Rows::kWithOthers,
                  const LayerTensors& of_layer = {}) {
  const Architecture& model = *job.model;
  const std::int64_t rows = padded_vocabulary(job);
  const bool packs = packs_quantised(job);
  const std::int64_t expert_ranks = job.parallel.expert;
  Unit<N> unit;
  unit.name = name;
  unit.tensors.reserve(tensors.size());
  for (std::size_t at = 0; at < tensors.size(); ++at) {
    const std::size_t place =
        of_layer.order.empty() ? (first + at) % tensors.size() : of_layer.order[at];
    const ParameterTensor& tensor = tensors[place];
    if (tensor.buffer || (of != Of::kAll && tensor.frozen != (of == Of::kFrozen))) continue;
    TensorShare<N> share;
    share.tensor = &tensor;
    share.trainable = !tensor.frozen;
    share.copies = tensor.copies;
    share.shape = tensor.shape;
    const bool of_experts = tensor.routed_expert;
    const std::int64_t tensor_ranks =
        of_experts ? job.parallel.expert_tensor.value() : job.parallel.tensor.value();
    const char* tensor_letter = tensor_ranks == job.parallel.tensor ? "t" : "et";
    if (of_experts && !tensor.fused_experts) share.copies /= expert_ranks;
    // Dimensions of an expert come after that of the experts.
    const std::size_t rows_at = tensor.fused_experts ? 1 : 0;
    const bool of_vocabulary =
        (tensor.role == TensorRole::kEmbedding || tensor.role == TensorRole::kHead) &&
        !share.shape.empty() && share.shape[0] == model.vocabulary;
    if (of_vocabulary_rows == (of_vocabulary ? Rows::kLeftOut : Rows::kAlone)) continue;
    if (of_vocabulary) share.shape[0] = rows;
    share.elements = share.first_dimension = N(1);  // of a number without dimensions, too
    for (std::size_t axis = 0; axis < share.shape.size(); ++axis) {
      N size = dimension<N>(model, rows, share.shape[axis]);
      const bool cut =
          (tensor.cut == TensorCut::kRows && axis == rows_at) ||
          (tensor.cut == TensorCut::kColumns && axis + 1 == share.shape.size() && axis > 0);
      if (cut && tensor_ranks > 1) {
        size = ceil_divide(size, Workbook<N>::symbol(tensor_letter, tensor_ranks));
        share.shape[axis] = plain(size);
      }
      if (of_vocabulary_rows == Rows::kAlone && axis == 0) {
        size = size / Workbook<N>::symbol("p", job.parallel.pipeline);
        share.shape[axis] = plain(size);
      }
      if (tensor.fused_experts && axis == 0 && expert_ranks > 1) {
        size = size / Workbook<N>::symbol("e", expert_ranks);
        share.shape[axis] = plain(size);
      }
      if (axis == 0) share.first_dimension = size;
      share.elements = share.elements * size;
    }
    if (packs && tensor.stored && is_quantised(*tensor.stored)) {
      const N in_one(16 / bits_of(*tensor.stored));
      share.elements = ceil_divide(share.elements, in_one);
      share.first_dimension = share.elements;
      share.shape = {plain(share.elements), 1};
    }
    const N all_copies = N(share.copies) * share.elements;
    unit.elements = unit.elements + all_copies;
    if (of_experts) unit.expert_elements = unit.expert_elements + all_copies;
    if (!of_layer.whole.empty() && of_layer.whole[place] >= 0) {
      const ParameterTensor* one = &tensors[static_cast<std::size_t>(of_layer.whole[place])];
      TensorShare<N>& whole =
          *std::find_if(unit.tensors.begin(), unit.tensors.end(),
                        [&](const TensorShare<N>& other) { return other.tensor == one; });
      whole.elements = whole.elements + share.elements;
      whole.first_dimension = whole.first_dimension + share.first_dimension;
      whole.shape.front() += share.shape.front();
      continue;
    }
    unit.tensor_count += share.copies;
    unit.tensors.push_back(std::move(share));
  }
  return unit;
}

template <class N>
void append(Unit<N>& unit, Unit<N> more) {
  for (TensorShare<N>& share : more.tensors) unit.tensors.push_back(std::move(share));
  unit.elements = unit.elements + more.elements;
  unit.tensor_count += more.tensor_count;
}

// Adds what `elements_of` a tensor makes, for each tensor of the unit.
template <class N, class ElementsOf>
TensorSum each_tensor(const Unit<N>& unit, ElementType type, ElementsOf elements_of,
                      TensorSum sum) {
  std::int64_t place = 0;
  for (const TensorShare<N>& share : unit.tensors) {
    sum.add(allocated_size(bytes_of(Elements(elements_of(share)), type)), share.copies, place);
    place += share.copies;
  }
  return sum;
}

}  // namespace

bool head_reads_embedding(const Architecture& model) {
  return (model.tied_head || !model.predictions.empty()) && !model.embedding_parameters.empty();
}

bool packs_quantised(const Job& job) {
  if (!job.adapter || !is_quantised(job.adapter->linear)) return false;
  if (job.engine == Engine::kDeepSpeed) return job.parallel.zero_stage == 3;
  return job.engine == Engine::kFsdp1 || (job.engine == Engine::kFsdp2 && !is_unsharded_fsdp2(job));
}

template <class N>
std::int64_t Unit<N>::largest() const {
  std::int64_t largest = 0;
  for (const TensorShare<N>& share : tensors) largest = std::max(largest, plain(share.elements));
  return largest;
}

template <class N>
TensorSum whole_tensors(const Unit<N>& unit, ElementType type, TensorSum sum) {
  return each_tensor(
      unit, type, [](const TensorShare<N>& share) { return Checked(plain(share.elements)); },
      std::move(sum));
}

template <class N>
N shard_symbol(const char* letter, const TensorShare<N>& share, const ShardRanks& ranks) {
  if (!share.of_experts() || ranks.of_experts == ranks.dense)
    return Workbook<N>::symbol(letter, ranks.dense);
  return Workbook<N>::symbol(*letter == 'W' ? "We" : "Ne", ranks.of_experts);
}

template <class N>
N flat_elements(const Unit<N>& unit, const ShardRanks& ranks) {
  const auto part = [](const N& elements, const char* letter, std::int64_t among) {
    return among > 1 ? ceil_divide(elements, Workbook<N>::symbol(letter, among)) : elements;
  };
  if (ranks.of_experts == ranks.dense) return part(unit.elements, "N", ranks.dense);
  return part(unit.elements - unit.expert_elements, "N", ranks.dense) +
         part(unit.expert_elements, "Ne", ranks.of_experts);
}

template <class N>
N padded_shard(const TensorShare<N>& share, const ShardRanks& ranks) {
  return ceil_divide(share.first_dimension, shard_symbol("W", share, ranks)) *
         (share.elements / share.first_dimension);
}

template <class N>
N padded_shard_elements(const Unit<N>& unit, const ShardRanks& ranks) {
  N sum{};
  for (const TensorShare<N>& share : unit.tensors)
    sum = sum + N(share.copies) * padded_shard(share, ranks);
  return sum;
}

template <class N>
N padded_whole_elements(const Unit<N>& unit, const ShardRanks& ranks) {
  N sum{};
  for (const TensorShare<N>& share : unit.tensors)
    sum = sum + N(share.copies) * padded_shard(share, ranks) * shard_symbol("W", share, ranks);
  return sum;
}

template <class N>
std::int64_t largest_padded_shard(const Unit<N>& unit, const ShardRanks& ranks) {
  std::int64_t largest = 0;
  for (const TensorShare<N>& share : unit.tensors)
    largest = std::max<std::int64_t>(largest, plain(padded_shard(share, ranks)));
  return largest;
}

template <class N>
TensorSum padded_shards(const Unit<N>& unit, const ShardRanks& ranks, ElementType type,
                        TensorSum sum) {
  return each_tensor(
      unit, type,
      [ranks](const TensorShare<N>& share) { return Checked(plain(padded_shard(share, ranks))); },
      std::move(sum));
}

template <class N>
TensorSum padded_wholes(const Unit<N>& unit, const ShardRanks& ranks, ElementType type,
                        TensorSum sum) {
  return each_tensor(
      unit, type,
      [ranks](const TensorShare<N>& share) {
        return Checked(plain(padded_shard(share, ranks))) * Checked(share.ranks(ranks));
      },
      std::move(sum));
}

template <class N>
N flat_shard(const TensorShare<N>& share, const ShardRanks& ranks) {
  return ceil_divide(share.elements, shard_symbol("N", share, ranks));
}

template <class N>
N flat_shard_elements(const Unit<N>& unit, const ShardRanks& ranks) {
  N sum{};
  for (const TensorShare<N>& share : unit.tensors)
    sum = sum + N(share.copies) * flat_shard(share, ranks);
  return sum;
}

template <class N>
TensorSum flat_shards(const Unit<N>& unit, const ShardRanks& ranks, ElementType type,
                      TensorSum sum) {
  return each_tensor(
      unit, type,
      [ranks](const TensorShare<N>& share) { return Checked(plain(flat_shard(share, ranks))); },
      std::move(sum));
}

template <class N>
Unit<N> joined(const char* name, const std::vector<const Unit<N>*>& units) {
  Unit<N> all;
  all.name = name;
  for (const Unit<N>* unit : units) append(all, Unit<N>(*unit));
  return all;
}

template <class N>
ModelUnits<N> units_of(const Job& job, Of of) {
  const Architecture& model = *job.model;
  ModelUnits<N> units;
  // A tower of vision and its projector stand before the table of tokens, but not where the two are compared.
  const std::size_t first = reads_patches(model) ? model.encoder_part->vision->first_tensor : 0;
  const Rows of_ends = divides_vocabulary(job) ? Rows::kLeftOut : Rows::kWithOthers;
  units.embedding = make_unit<N>(job, "embedding", model.embedding_parameters, of, first, of_ends);
  for (const Layer& layer : model.kinds)
    units.kinds.push_back(make_unit<N>(job, "layer", layer.parameters, of, 0, Rows::kWithOthers,
                                       layer_tensors(job, layer)));
  units.head = make_unit<N>(job, "head", model.head_parameters, of, 0, of_ends);
  if (divides_vocabulary(job)) {
    units.vocabulary_rows =
        make_unit<N>(job, "vocabulary", model.embedding_parameters, of, 0, Rows::kAlone);
    Unit<N> of_head = make_unit<N>(job, "vocabulary", model.head_parameters, of, 0, Rows::kAlone);
    append(units.vocabulary_rows, std::move(of_head));
  } else if (head_reads_embedding(model)) {
    units.vocabulary_rows =
        make_unit<N>(job, "tied head", {model.embedding_parameters.front()}, of);
    // the copy's tensor lives in the model, not in the temporary list above
    for (TensorShare<N>& share : units.vocabulary_rows.tensors)
      share.tensor = &model.embedding_parameters.front();
  }
  return units;
}

#define STEELYARD_UNITS(N)                                                                     \
  template struct Unit<N>;                                                                     \
  template Unit<N> joined(const char*, const std::vector<const Unit<N>*>&);                    \
  template TensorSum whole_tensors(const Unit<N>&, ElementType, TensorSum);                    \
  template N shard_symbol(const char*, const TensorShare<N>&, const ShardRanks&);              \
  template N flat_elements(const Unit<N>&, const ShardRanks&);                                 \
  template N padded_shard_elements(const Unit<N>&, const ShardRanks&);                         \
  template N padded_whole_elements(const Unit<N>&, const ShardRanks&);                         \
  template std::int64_t largest_padded_shard(const Unit<N>&, const ShardRanks&);               \
  template N padded_shard(const TensorShare<N>&, const ShardRanks&);                           \
  template TensorSum padded_shards(const Unit<N>&, const ShardRanks&, ElementType, TensorSum); \
  template TensorSum padded_wholes(const Unit<N>&, const ShardRanks&, ElementType, TensorSum); \
  template N flat_shard(const TensorShare<N>&, const ShardRanks&);                             \
  template N flat_shard_elements(const Unit<N>&, const ShardRanks&);                           \
  template TensorSum flat_shards(const Unit<N>&, const ShardRanks&, ElementType, TensorSum);   \
  template ModelUnits<N> units_of(const Job&, Of);
STEELYARD_UNITS(Checked)
STEELYARD_UNITS(Traced)
#undef STEELYARD_UNITS

}  // namespace steelyard
