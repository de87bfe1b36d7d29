// DeepSpeed: which optimizer wraps the given one, and the flat tensors that all of them step on.
//
//   stage 0          FP16_Optimizer (16 bit), the plain optimizer (fp32)
//   stage 1, fp32 accumulation, and 16-bit pipelines without ZeRO       BF16_Optimizer
//   stages 1 and 2   DeepSpeedZeroOptimizer
//   stage 3          DeepSpeedZeroOptimizer_Stage3
//
// Source: deepspeed/runtime/engine.py, _do_optimizer_sanity_check (0.19.8).
#include "engine/deepspeed.h"

#include <algorithm>

#include "recipe/optimizer.h"

namespace steelyard {

template <class N>
DeepSpeedModel<N>::DeepSpeedModel(const EngineContext<N>& context) : EngineModel<N>(context) {
  const Precision& precision = this->job_.training.precision;
  ranks_ = this->job_.parallel.data * this->job_.parallel.context;
  // MiCS divides within a group; its replicas add their gradients up in place.
  if (this->job_.parallel.shard_group > 0) ranks_ = this->job_.parallel.shard_group;
  stored_ = precision.parameters;
  // The wrapper makes the copy, whatever optimizer it wraps.
  master_ = precision.master.value_or(precision.parameters);
  scaled_loss_ = slot("loss", "loss, divided and scaled", "deepspeed.scaled-loss", Pile::kTemporary,
                      N(1), ElementType::kFloat32);
  kernel_flag_ = slot("optimizer", "flag of the fused kernel", "deepspeed.kernel-flag",
                      Pile::kTemporary, N(1), ElementType::kFloat32);
}

template <class N>
N DeepSpeedModel<N>::padded_elements(const Stage<N>& stage) const {
  const N elements = this->trained_elements(stage);
  const N alignment = N(2) * Workbook<N>::symbol("N", ranks_);
  return plain(elements) % plain(alignment) == 0 ? elements : round_up(elements, alignment);
}

template <class N>
N DeepSpeedModel<N>::share_of(const N& padded) const {
  return ranks_ > 1 ? padded / Workbook<N>::symbol("N", ranks_) : padded;
}

template <class N>
typename DeepSpeedModel<N>::FlatStates DeepSpeedModel<N>::flat_states(const Stage<N>& stage,
                                                                      const N& share,
                                                                      const N& at_once,
                                                                      ElementType type) {
  const Training& training = this->job_.training;
  const Optimizer& optimizer = training.optimizer;
  const ElementType narrow = training.precision.moments.value_or(type);
  struct Sum {
    N elements{};
    ElementType type = ElementType::kFloat32;
  };
  std::vector<Sum> sums(optimizer.slots.size());
  const std::vector<std::int64_t>& count = this->counts(stage);
  const std::vector<const Unit<N>*> units = this->all_units();
  for (std::size_t unit = 0; unit < units.size(); ++unit) {
    if (count[unit] == 0) continue;
    for (const TensorShare<N>& part : units[unit]->tensors) {
      if (!part.trainable) continue;
      const std::int64_t cut = ceil_divide(Checked(plain(part.elements)), Checked(ranks_)).value();
      for (const StateTensor& state : state_tensors(optimizer, *part.tensor, {cut}, narrow)) {
        if (state.paged) continue;  // managed memory, outside the allocator
        Sum& sum = sums[static_cast<std::size_t>(state.slot - optimizer.slots.data())];
        sum.type = state.type;
        sum.elements =
            sum.elements + N(count[unit] * part.copies * state.count) * N(state.elements);
      }
    }
  }
  FlatStates states;
  for (std::size_t index = 0; index < optimizer.slots.size(); ++index) {
    const OptimizerSlot& kind = optimizer.slots[index];
    // One value for each parameter of the share, padding included, needs no sum over tensors.
    const bool of_all = kind.extent == SlotExtent::kParameter &&
                        kind.applies_to == SlotAppliesTo::kAll && !optimizer.paged;
    const N elements = of_all ? N(kind.count) * share : sums[index].elements;
    if (plain(elements) == 0) continue;
    const ElementType stored = of_all ? kind.type.value_or(narrow) : sums[index].type;
    states.states.push_back(slot("optimizer", kind.name.c_str(), "deepspeed.flat-states",
                                 Pile::kOptimizerMoments, elements, stored));
    states.bytes += this->book_.program.slot_at(states.states.back()).bytes;
  }
  const OptimizerForm form = form_of(training);
  if (form == OptimizerForm::kForeach && optimizer.foreach_list_of_second_moment > 0)
    states.square_roots = slot("optimizer", "square roots of the second moment",
                               "optimizer.foreach-list", Pile::kTemporary, at_once, narrow);
  if (form == OptimizerForm::kLoop && optimizer.loop_largest_tensor > 0) {
    states.loop_temporary =
        slot("optimizer", "temporary of the largest tensor", "optimizer.loop-temporary",
             Pile::kTemporary, at_once, optimizer.temporary_type.value_or(type));
    states.loop_times = static_cast<std::int32_t>(optimizer.loop_largest_tensor);
    if (bits_of(type) < bits_of(optimizer.temporary_type.value_or(type)))
      states.loop_times += static_cast<std::int32_t>(optimizer.loop_widened_copies);
  }
  return states;
}

template <class N>
void DeepSpeedModel<N>::hold(const FlatStates& states, Events& events) const {
  for (SlotId state : states.states) events.push_back({state, 1});
}

template <class N>
void DeepSpeedModel<N>::step(const FlatStates& states, Events& events) const {
  if (states.square_roots >= 0) {
    events.push_back({states.square_roots, this->job_.foreach_lists});
    events.push_back({states.square_roots, -this->job_.foreach_lists});
  }
  if (states.loop_temporary < 0) return;
  events.push_back({states.loop_temporary, states.loop_times});
  events.push_back({states.loop_temporary, -states.loop_times});
}

template <class N>
std::vector<typename DeepSpeedModel<N>::Part> DeepSpeedModel<N>::parts_within(
    const Stage<N>& stage, std::int64_t from, std::int64_t until) const {
  const std::vector<std::int64_t>& count = this->counts(stage);
  const std::vector<const Unit<N>*> units = this->all_units(Of::kTrained);
  std::vector<Part> parts;
  std::int64_t at = 0;
  for (std::size_t unit = 0; unit < units.size(); ++unit)
    for (std::int64_t i = 0; i < count[unit]; ++i)
      for (const TensorShare<N>& tensor : units[unit]->tensors)
        for (std::int64_t copy = 0; copy < tensor.copies; ++copy) {
          const std::int64_t whole = plain(tensor.elements);
          const std::int64_t part = std::min(at + whole, until) - std::max(at, from);
          if (part > 0) parts.push_back({part, whole});
          at += whole;
          if (at >= until) return parts;
        }
  return parts;
}

template class DeepSpeedModel<Checked>;
template class DeepSpeedModel<Traced>;

template <class N>
std::unique_ptr<EngineModel<N>> make_deepspeed(const EngineContext<N>& context) {
  const Precision& precision = context.job.training.precision;
  const bool sixteen_bits = bits_of(precision.parameters) == 16;
  const bool accumulates_apart = sixteen_bits && precision.accumulated_gradients.has_value();
  switch (context.job.parallel.zero_stage) {
    case 0:
      return accumulates_apart || (precision.parameters == ElementType::kBFloat16 &&
                                   context.job.parallel.pipeline > 1)
                 ? make_deepspeed_bf16(context)
                 : make_deepspeed_unpartitioned(context);
    case 1:
      return accumulates_apart && context.job.offload.optimizer == OffloadTarget::kNone
                 ? make_deepspeed_bf16(context)
                 : make_deepspeed_zero12(context);
    case 2:
      return make_deepspeed_zero12(context);
    default:
      return make_deepspeed_zero3(context);
  }
}
template std::unique_ptr<EngineModel<Checked>> make_deepspeed(const EngineContext<Checked>&);
template std::unique_ptr<EngineModel<Traced>> make_deepspeed(const EngineContext<Traced>&);

}  // namespace steelyard
