#include "engine/deepspeed_zero3_partitions.h"

#include <algorithm>
#include <limits>

namespace steelyard {

namespace {

// offload_config.py: offload_optimizer.buffer_count; offload_param.buffer_count times buffer_size, one tensor; max_in_cpu.
constexpr std::int64_t kSwapBuffers = 4;
constexpr std::int64_t kSwapPoolElements = 5 * 100'000'000LL;
constexpr std::int64_t kParametersOnHost = 1'000'000'000;

}  // namespace

template <class N>
SlotId Zero3Partitions<N>::parts_of(const Unit<N>& unit, bool small, const N& ranks,
                                    const SlotName& name) {
  N elements{};
  TensorSum tensors = this->book_.tensor_sum();
  for (const TensorShare<N>& share : unit.tensors) {
    if (persists(share) != small) continue;
    const N part = plain(ranks) == 1 ? share.elements : ceil_divide(share.elements, ranks);
    elements = elements + N(share.copies) * part;
    tensors.add(allocated_size(bytes_of(Elements(Checked(plain(part))), this->stored_)),
                share.copies, 0);
  }
  return this->book_.slot_of_tensors(name, Pile::kParameters, elements, this->stored_,
                                     std::move(tensors));
}

template <class N>
N Zero3Partitions<N>::share_elements(const Stage<N>& stage, Of of) const {
  const std::vector<std::int64_t>& count = this->counts(stage);
  const std::vector<const Unit<N>*> units = this->all_units(of);
  N sum{};
  for (std::size_t unit = 0; unit < units.size(); ++unit)
    if (count[unit] > 0)
      sum =
          sum + N(count[unit]) * (this->ranks_ > 1 ? flat_shard_elements(*units[unit], this->ranks_)
                                                   : units[unit]->elements);
  return sum;
}

template <class N>
N Zero3Partitions<N>::fetched_elements(const Stage<N>& stage, Of of) const {
  const std::vector<std::int64_t>& count = this->counts(stage);
  const std::vector<const Unit<N>*> units = this->all_units(of);
  N sum{};
  for (std::size_t unit = 0; unit < units.size(); ++unit)
    for (const TensorShare<N>& share : units[unit]->tensors)
      if (count[unit] > 0 && !persists(share))
        sum = sum + N(count[unit] * share.copies) * share.elements;
  return sum;
}

template <class N>
void Zero3Partitions<N>::count_sub_groups(const Stage<N>& stage, Buffers& buffers) const {
  const std::vector<std::int64_t>& count = this->counts(stage);
  const std::vector<const Unit<N>*> units = this->all_units(Of::kTrained);
  std::int64_t tensors = 0, elements = 0;
  buffers.sub_groups = 0;
  const auto close = [&] {
    buffers.tensors = std::max(buffers.tensors, tensors);
    ++buffers.sub_groups;
    tensors = elements = 0;
  };
  for (std::size_t unit = 0; unit < units.size(); ++unit)
    for (std::int64_t i = 0; i < count[unit]; ++i)
      for (const TensorShare<N>& tensor : units[unit]->tensors)
        for (std::int64_t copy = 0; copy < tensor.copies; ++copy) {
          ++tensors;
          elements += (plain(tensor.elements) + this->ranks_ - 1) / this->ranks_;
          if (elements >= this->job_.buckets.sub_group) close();
        }
  if (tensors > 0 || buffers.sub_groups == 0) close();
}

template <class N>
void Zero3Partitions<N>::count_bucket(const Stage<N>& stage, Buffers& buffers) const {
  if (this->steps_in_backward()) return;
  const std::vector<const Unit<N>*> units = this->all_units(Of::kTrained);
  std::int64_t filled = 0, tensors = 0;
  const auto reduce = [&] {
    // One alone is divided where it is.
    if (tensors > 1 || filled % this->ranks_ != 0)
      buffers.copied = std::max(buffers.copied, filled);
    buffers.bucket = std::max(buffers.bucket, filled);
    filled = tensors = 0;
  };
  for (std::size_t unit = units.size(); unit-- > 0;)
    for (std::int64_t i = 0; i < this->counts(stage)[unit]; ++i)
      for (auto share = units[unit]->tensors.rbegin(); share != units[unit]->tensors.rend();
           ++share)
        for (std::int64_t copy = 0; copy < share->copies; ++copy) {
          const std::int64_t elements = plain(share->elements);
          if (filled > 0 && filled + elements > this->job_.buckets.reduce) {
            reduce();
            buffers.fills = true;
            if (unit > 0) buffers.fills_in_layers = true;
          }
          filled += elements;
          ++tensors;
        }
  reduce();
}

template <class N>
std::vector<std::vector<std::int64_t>> Zero3Partitions<N>::shapes_of(const Stage<N>& stage) const {
  std::vector<std::vector<std::int64_t>> shapes;
  const std::vector<const Unit<N>*> units = this->all_units(Of::kTrained);
  for (std::size_t unit = 0; unit < units.size(); ++unit)
    for (std::int64_t i = 0; i < std::min<std::int64_t>(2, this->counts(stage)[unit]); ++i)
      for (const TensorShare<N>& tensor : units[unit]->tensors) shapes.push_back(tensor.shape);
  return shapes;
}

template <class N>
typename Zero3Partitions<N>::Buffers Zero3Partitions<N>::make_buffers(const Stage<N>& stage) {
  const Buckets& buckets = this->job_.buckets;
  const N share = share_elements(stage, Of::kTrained), all = fetched_elements(stage, Of::kAll);
  const N sub_group = this->at_most(share, buckets.sub_group);
  Buffers buffers;
  count_bucket(stage, buffers);
  buffers.hooked = this->slot("model", "largest parameter, gathered to hook its gradient",
                              "deepspeed.zero3-hooks", Pile::kTemporary,
                              N(this->largest_tensor(stage, Of::kTrained)), this->stored_);
  buffers.hooked_part = this->slot("model", "partition of the largest parameter, from the host",
                                   "deepspeed.zero3-hooks", Pile::kTemporary,
                                   ceil_divide(N(this->largest_tensor(stage, Of::kTrained)),
                                               Workbook<N>::symbol("N", this->ranks_)),
                                   this->stored_);
  buffers.shares = this->slot("model", "parameter partitions", "deepspeed.zero3-partitions",
                              Pile::kParameters, share, this->stored_);
  buffers.gradients = this->slot("gradients", "gradient partitions", "deepspeed.zero3-gradients",
                                 Pile::kGradients, share, accumulated_);
  buffers.states = this->flat_states(stage, share, sub_group, this->master_);
  if (!this->offloads_states()) {
    // Also where the partitions have the stepped type already.
    buffers.master = this->slot("optimizer", "fp32 partitions", "deepspeed.fp32-partition",
                                Pile::kMasterWeights, share, this->master_);
    count_sub_groups(stage, buffers);
    buffers.norm_copy = this->slot("optimizer", "largest gradient partition, fp64, for its norm",
                                   "deepspeed.norm-copy", Pile::kTemporary,
                                   ceil_divide(N(this->largest_tensor(stage, Of::kTrained)),
                                               Workbook<N>::symbol("N", this->ranks_)),
                                   ElementType::kFloat64);
    buffers.largest = {
        buffers.norm_copy,
        ceil_divide(Checked(this->largest_tensor(stage, Of::kTrained)), Checked(this->ranks_))
            .value(),
        buffers.sub_groups == 1
            ? this->place_of(this->largest_tensor(stage, Of::kTrained),
                             this->parts_within(stage, 0, std::numeric_limits<std::int64_t>::max()))
            : 0};
    buffers.joined =
        this->slot("optimizer", "gradients of a sub-group, joined", "deepspeed.zero3-sub-group",
                   Pile::kTemporary, sub_group, accumulated_);
    buffers.stepped =
        this->slot("optimizer", "fp32 gradients of a sub-group", "deepspeed.zero3-sub-group",
                   Pile::kTemporary, sub_group, this->master_);
  }
  // Modules that come again soon are kept even beyond what may be fetched ahead; the module at work always is whole.
  const std::int64_t largest = this->largest_tensor(stage, Of::kAll);
  const std::int64_t live = std::max({buckets.live, buckets.reuse / 2, largest});
  buffers.keeps_all = plain(all) <= live;
  if (!buffers.keeps_all)
    buffers.gathered = this->slot("model", "gathered parameters", "deepspeed.zero3-gathered",
                                  Pile::kParameters, this->at_most(all, live), this->stored_);
  buffers.scattered = transport_.reduction_of(buffers.bucket, buffers.copied, shapes_of(stage));
  buffers.saved = this->slot("checkpoint", "largest module, gathered", "deepspeed.zero3-save",
                             Pile::kTemporary, N(largest), this->stored_);
  return buffers;
}

template <class N>
HostMemory Zero3Partitions<N>::host(const Stage<N>& stage) const {
  HostMemory memory = EngineModel<N>::host(stage);
  const bool pinned = this->job_.offload.pinned;
  const std::int64_t share = plain(share_elements(stage, Of::kTrained));
  if (this->offloads_states()) {
    const bool swaps = this->job_.offload.optimizer == OffloadTarget::kNvme;
    const HostPlace place = swaps ? HostPlace::kNvme : HostPlace::kPageable;
    const Bytes wide = bytes_of(Elements(Checked(share)), this->master_);
    memory.add("fp32 partitions", "deepspeed.offload-partition3", place, wide);
    memory.add("optimizer states", "deepspeed.offload-states", place,
               buffers_.at(stage).states.bytes);
    const std::int64_t group = std::min(share, this->job_.buckets.sub_group);
    const Bytes of_group = bytes_of(Elements(Checked(group)), this->master_);
    if (swaps) {
      memory.add("gradients of the step", "deepspeed.offload-gradients", place, wide);
      memory.add_tensors("buffers that states pass through", "deepspeed.swap-buffers", true,
                         of_group, kSwapBuffers);
    } else {
      memory.add_tensors("gradients of the step", "deepspeed.offload-gradients", pinned, of_group,
                         share / group);
      if (share % group > 0)
        memory.add_tensors("gradients of the last sub-group", "deepspeed.offload-gradients", pinned,
                           bytes_of(Elements(Checked(share % group)), this->master_));
    }
    memory.add_tensors("gradient partitions", "deepspeed.zero3-gradients", pinned,
                       bytes_of(Elements(Checked(share)), accumulated_));
  }
  if (this->offloads_parameters()) {
    const Bytes whole =
        bytes_of(Elements(Checked(plain(share_elements(stage, Of::kAll)))), this->stored_);
    if (this->job_.offload.parameters == OffloadTarget::kNvme) {
      memory.add("parameter partitions", "deepspeed.offload-parameters", HostPlace::kNvme, whole);
      const std::int64_t stays =
          std::min(plain(share_elements(stage, Of::kAll)), kParametersOnHost);
      memory.add_tensors("parameters that stay on the host", "deepspeed.swap-pool", true,
                         bytes_of(Elements(Checked(stays)), this->stored_));
      memory.add_tensors("buffers that parameters pass through", "deepspeed.swap-pool", true,
                         bytes_of(Elements(Checked(kSwapPoolElements)), this->stored_));
    } else {
      memory.add_tensors("parameter partitions", "deepspeed.offload-parameters", pinned, whole);
    }
  }
  return memory;
}

template class Zero3Partitions<Checked>;
template class Zero3Partitions<Traced>;

}  // namespace steelyard
