#include "engine/zero_transport.h"

#include <algorithm>
#include <array>

#include "quantity/element_type.h"

namespace steelyard {

namespace {

constexpr std::int64_t kGroupTarget = 8000;  // CUDAQuantizer.target_group_size

// Python's names: what a name held goes when it has been given something else.
class NamedTensors {
 public:
  void name(std::size_t which, std::int64_t bytes) {
    const std::int64_t made = allocated_size(Bytes(bytes)).value().value();
    most_ = std::max(most_, held_ += made);
    held_ -= names_.at(which);
    names_.at(which) = made;
  }
  Bytes most() const { return Bytes(most_); }

 private:
  std::array<std::int64_t, 10> names_{};
  std::int64_t held_ = 0, most_ = 0;
};

}  // namespace

std::int64_t quantised_groups(std::int64_t elements) {
  if (elements % 8 != 0) return 0;
  const std::int64_t vectors = elements / 8;
  std::int64_t groups = (elements + kGroupTarget - 1) / kGroupTarget;
  while (groups < vectors && vectors % groups != 0) ++groups;
  while (vectors % (groups * 2) == 0 && elements > kGroupTarget * groups) groups *= 2;
  return groups;
}

Bytes four_bit_exchange(const std::vector<std::vector<std::int64_t>>& shapes, std::int64_t ranks,
                        std::int64_t ranks_of_machine) {
  enum Name : std::size_t {
    kScales,
    kCodes,
    kIn,
    kScalesIn,
    kOutScales,
    kOut,
    kOutIn,
    kScaleOutIn,
    kWhole,
    kSum
  };
  const std::int64_t machines = ranks / ranks_of_machine;
  NamedTensors tensors;
  for (const std::vector<std::int64_t>& shape : shapes) {
    std::int64_t elements = 1, groups = ranks;
    for (const std::int64_t side : shape) {
      elements *= side;
      groups = std::max(groups, side);
    }
    if (shape.size() < 2 || elements % (2 * ranks) != 0) continue;  // reduced in its own type
    constexpr std::int64_t kScaleBytes = 4;
    const std::int64_t sums = groups / ranks_of_machine, part = elements / ranks_of_machine;
    tensors.name(kScales, kScaleBytes * groups);
    tensors.name(kCodes, elements / 2);
    tensors.name(kIn, elements / 2);
    tensors.name(kScalesIn, kScaleBytes * groups);
    tensors.name(kOutScales, kScaleBytes * sums);
    tensors.name(kOut, part / 2);
    tensors.name(kOutIn, part / 2);
    tensors.name(kScaleOutIn, kScaleBytes * sums);
    tensors.name(kWhole, 2 * part);
    tensors.name(kSum, 2 * part / machines);
  }
  return tensors.most();
}

template <class N>
typename ZeroTransport<N>::Group ZeroTransport<N>::with(Group group, const TensorShare<N>& share,
                                                        std::int64_t copies) const {
  const N letter = Workbook<N>::symbol("N", ranks_);
  const N part = ceil_divide(share.elements, letter);
  group.elements = group.elements + N(copies) * share.elements;
  group.padded = group.padded + N(copies) * part * letter;
  if (plain(share.elements) > plain(group.largest)) group.largest = share.elements;
  group.tensors += copies;
  group.part += copies * plain(part);
  return group;
}

template <class N>
std::int64_t ZeroTransport<N>::bytes_beside(const Group& group) const {
  const bool alone = group.tensors < 2;
  if (!job_.parallel.quantized_gather)
    return alone ? 0 : plain(group.padded) * bits_of(stored_) / 8;
  return plain(group.padded) * (alone ? 1 : 3) +
         (stored_ == ElementType::kFloat16 ? 0 : 2 * plain(group.largest));
}

// Tensors are fetched together until prefetch_bucket is reached, wherever that starts.
template <class N>
typename ZeroTransport<N>::Group ZeroTransport<N>::worst_group(const Unit<N>& unit) const {
  const std::int64_t wanted = std::max<std::int64_t>(1, job_.buckets.prefetch);
  Group worst;
  for (std::size_t start = 0; start < unit.tensors.size(); ++start) {
    Group group;
    for (std::size_t i = start; i < unit.tensors.size() && plain(group.elements) < wanted; ++i) {
      const TensorShare<N>& share = unit.tensors[i];
      if (persists(share)) continue;
      const std::int64_t missing =
          (wanted - plain(group.elements) + plain(share.elements) - 1) / plain(share.elements);
      group = with(std::move(group), share, std::min(share.copies, missing));
    }
    if (bytes_beside(group) > bytes_beside(worst)) worst = std::move(group);
  }
  return worst;
}

template <class N>
std::vector<SlotId> ZeroTransport<N>::slots_of(const Unit<N>& unit, const Group& group) {
  std::vector<SlotId> slots;
  if (group.tensors == 0) return slots;
  const auto slot = [&](const char* name, const char* rule, Pile pile, const N& elements,
                        ElementType type) {
    slots.push_back(book_.slot({unit.name, name, rule}, pile, elements, type));
  };
  const bool alone = group.tensors == 1;
  if (!job_.parallel.quantized_gather) {
    if (!alone)
      slot("flat copy of a fetched group", "deepspeed.zero3-fetch", Pile::kCommunication,
           group.padded, stored_);
    return slots;
  }
  constexpr const char* kRule = "deepspeed.quantised-gather";
  slot("8-bit codes of a fetched group", kRule, Pile::kCommunication, group.padded,
       ElementType::kInt8);
  slot("scales of the codes", kRule, Pile::kCommunication,
       Workbook<N>::counted("groups", quantised_groups(group.part)) *
           Workbook<N>::symbol("N", ranks_),
       ElementType::kFloat32);
  if (!alone)
    slot("flat copy of a fetched group, fp16", kRule, Pile::kTemporary, group.padded,
         ElementType::kFloat16);
  if (stored_ != ElementType::kFloat16)
    slot("largest of it, fp16", kRule, Pile::kTemporary, group.largest, ElementType::kFloat16);
  return slots;
}

template <class N>
std::vector<SlotId> ZeroTransport<N>::fetch_of(const Unit<N>& unit) {
  return slots_of(unit, worst_group(unit));
}

template <class N>
std::vector<SlotId> ZeroTransport<N>::ahead_of(const Unit<N>& unit) {
  const Group group = worst_group(unit);
  if (group.tensors < 2) return {};
  if (!job_.parallel.quantized_gather) return slots_of(unit, group);
  const SlotName codes{unit.name, "8-bit codes under way, and this rank's",
                       "deepspeed.quantised-gather"};
  const N letter = Workbook<N>::symbol("N", ranks_);
  return {book_.slot(codes, Pile::kCommunication, group.padded, ElementType::kInt8),
          book_.slot(codes, Pile::kCommunication, group.padded / letter, ElementType::kInt8)};
}

template <class N>
std::vector<SlotId> ZeroTransport<N>::first_fetch_of(const Unit<N>& unit) {
  const TensorShare<N>* largest = nullptr;
  for (const TensorShare<N>& share : unit.tensors)
    if (!persists(share) && (!largest || plain(share.elements) > plain(largest->elements)))
      largest = &share;
  if (!largest) return {};
  const Group alone = with({}, *largest, 1);
  std::vector<SlotId> slots = slots_of(unit, alone);
  slots.push_back(
      book_.slot({unit.name, "a module's parameters, gathered", "deepspeed.zero3-gathered"},
                 Pile::kParameters, alone.padded, stored_));
  return slots;
}

template <class N>
SlotId ZeroTransport<N>::reduction_of(std::int64_t bucket, std::int64_t copied,
                                      const std::vector<std::vector<std::int64_t>>& shapes) {
  if (!job_.parallel.quantized_reduce)
    return book_.slot({"gradients", "reduce-scatter input", "deepspeed.zero3-scatter"},
                      Pile::kCommunication, Workbook<N>::counted("fullest bucket", copied),
                      stored_);
  // Reduced shards of the bucket wait, in fp16, until all of it is done.
  const Bytes most = bytes_of(Elements(Checked(bucket / ranks_)), ElementType::kFloat16) +
                     four_bit_exchange(shapes, ranks_, job_.cluster.devices_per_node);
  return book_.slot(
      {"gradients", "4-bit codes, sent and received, and shards", "deepspeed.quantised-reduce"},
      Pile::kCommunication, Workbook<N>::counted("codes of two gradients", most.value().value()),
      ElementType::kInt8);
}

template class ZeroTransport<Checked>;
template class ZeroTransport<Traced>;

}  // namespace steelyard
