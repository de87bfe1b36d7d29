#include "engine/megatron_eight_bits.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace steelyard {

namespace {

constexpr double kOneLayout = 1;  // bytes of a weight in 8 bits, by rows alone

// sm_100, sm_103, sm_120: 8-bit products in any layout.
bool is_blackwell(std::string_view architecture) {
  return architecture.starts_with("sm_10") || architecture.starts_with("sm_12");
}

}  // namespace

template <class N>
SlotSet MegatronEightBits<N>::eight_bit_weights() {
  const Training& training = this->job_.training;
  const bool blackwell = is_blackwell(this->job_.cluster.device->architecture);
  const double both =
      blackwell ? training.precision.float8_copy_blackwell : training.precision.float8_copy_hopper;
  const double bytes = training.transposed_weights ? both : std::min(both, kOneLayout);
  return training.eight_bit_parameters
             ? of_tensors({"", "weights, 8 bits", "megatron.fp8-parameters"}, ElementType::kInt8,
                          bytes, true)
             : of_tensors({"", "8-bit copies of weights", "float8.weight-copies"},
                          ElementType::kInt8, bytes, true);
}

template <class N>
bool MegatronEightBits<N>::is_of_product(const Unit<N>& unit, const TensorShare<N>& share) const {
  const ModelUnits<N>& units = this->context_.units;
  // Modules that predict further tokens are layers among the head's tensors.
  const bool of_layer =
      (&unit >= units.kinds.data() && &unit < units.kinds.data() + units.kinds.size()) ||
      (&unit == &units.head && this->predicts());
  return of_layer && share.tensor->role == TensorRole::kMatrix && share.shape.size() >= 2;
}

template <class N>
SlotSet MegatronEightBits<N>::rounded_masters(ElementType type, const ShardRanks& ranks) {
  SlotSet set;
  for (const Unit<N>* unit : this->all_units(Of::kTrained)) {
    N elements{};
    TensorSum sum = this->book_.tensor_sum();
    for (const TensorShare<N>& share : unit->tensors) {
      if (!is_of_product(*unit, share)) continue;
      const N each = flat_shard(share, ranks);
      elements = elements + N(share.copies) * each;
      sum.add(allocated_size(bytes_of(Elements(Checked(plain(each))), type)), share.copies, 0);
    }
    set.slots.push_back(
        plain(elements) == 0
            ? SlotId{-1}
            : this->book_.slot_of_tensors(
                  {unit->name, "main parameters, rounded to become 8 bits", "megatron.fp8-update"},
                  Pile::kTemporary, elements, type, std::move(sum)));
  }
  return set;
}

template <class N>
SlotSet MegatronEightBits<N>::of_tensors(const SlotName& name, ElementType type, double bytes,
                                         bool matrices) {
  SlotSet set;
  for (const Unit<N>* unit : this->all_units(Of::kAll)) {
    N elements{};
    TensorSum sum = this->book_.tensor_sum();
    for (const TensorShare<N>& share : unit->tensors) {
      if (is_of_product(*unit, share) != matrices) continue;
      const auto each =
          static_cast<std::int64_t>(static_cast<double>(plain(share.elements)) * bytes);
      elements = elements + N(share.copies * each / static_cast<std::int64_t>(bytes_each(type)));
      sum.add(allocated_size(Bytes(each)), share.copies, 0);
    }
    set.slots.push_back(plain(elements) == 0
                            ? SlotId{-1}
                            : this->book_.slot_of_tensors({unit->name, name.name, name.rule},
                                                          Pile::kParameters, elements, type,
                                                          std::move(sum)));
  }
  return set;
}

template class MegatronEightBits<Checked>;
template class MegatronEightBits<Traced>;

}  // namespace steelyard
