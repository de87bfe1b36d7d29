// What DeepSpeed's optimizers share: a stage's parameters as one flat tensor, cut into equal parts.
//
//   whole   [ q_proj | k_proj | ... | lm_head | padding ]     round_up(P, 2N) elements; parameters are views of it
//   share   [ 1/N of it ]                                     what this rank steps on
//
// An optimizer sees nothing but its share, a single vector: one tensor for each of its states.
#pragma once

#include <algorithm>
#include <vector>

#include "engine/by_stage.h"
#include "engine/engine.h"

namespace steelyard {

template <class N>
class DeepSpeedModel : public EngineModel<N> {
 public:
  using typename EngineModel<N>::Events;

  explicit DeepSpeedModel(const EngineContext<N>& context);

  // engine.backward() divides the loss by the micro-batches of a step, and a ZeRO optimizer scales the quotient.
  void begin_backward(const Stage<N>& stage, bool, Events& events) override {
    if (stage.head) events.push_back({scaled_loss_, scaled_losses_});
  }

 protected:
  void drop_scaled_loss(const Stage<N>& stage, Events& events) const {
    if (stage.head) events.push_back({scaled_loss_, -scaled_losses_});
  }
  // What the fused kernel is given on construction.
  void hold_kernel_flag(Events& events) const {
    if (form_of(this->job_.training) == OptimizerForm::kFused) events.push_back({kernel_flag_, 1});
  }

  // The optimizer's states on a flat share; -1: not needed.
  struct FlatStates {
    std::vector<SlotId> states;
    SlotId square_roots = -1;    // foreach: as large as the second moments that are stepped at once
    SlotId loop_temporary = -1;  // loop: the same, `loop_times` times
    std::int32_t loop_times = 0;
    Bytes bytes{};
  };

  // All parameters of a stage that are trained (what is frozen enters no flat tensor), padded so that every rank's share
  // starts on a 4-byte boundary (nccl_start_alignment_factor 2).
  N padded_elements(const Stage<N>& stage) const;
  N share_of(const N& padded) const;
  // `at_once`: elements that one step() sees (a sub-group of ZeRO-3, otherwise the share).
  FlatStates flat_states(const Stage<N>& stage, const N& share, const N& at_once, ElementType type);
  void hold(const FlatStates& states, Events& events) const;
  void step(const FlatStates& states, Events& events) const;
  // What of each trained tensor lies within [from, until) of the flat tensor, in order.
  struct Part {
    std::int64_t elements = 0, whole = 0;  // of the part, and of the tensor
  };
  std::vector<Part> parts_within(const Stage<N>& stage, std::int64_t from,
                                 std::int64_t until) const;
  // The place, from 1 on, of the first part of so many elements; 0: there is none so large.
  static std::int64_t place_of(std::int64_t elements, const std::vector<Part>& parts) {
    const auto found = std::find_if(parts.begin(), parts.end(),
                                    [&](const Part& part) { return part.elements >= elements; });
    return found == parts.end() ? 0 : found - parts.begin() + 1;
  }

  SlotId slot(const char* owner, const char* name, const char* rule, Pile pile, const N& elements,
              ElementType type) {
    return this->book_.slot({owner, name, rule}, pile, elements, type);
  }
  // The smaller of a formula and a constant.
  static N at_most(const N& elements, std::int64_t limit) {
    return plain(elements) > limit ? N(limit) : elements;
  }
  static void pass(SlotId slot, Events& events) {
    events.push_back({slot, 1});
    events.push_back({slot, -1});
  }
  // Not finite? A count, the largest value and the smallest, what says so of each, and both together.
  void look_for_overflow(Events& events) const {
    if (bits_of(stored_) == 16) this->norm_.numbers(5, events);
  }
  bool offloads_states() const { return this->offloads_optimizer(); }
  // How many micro-batches the host adds up.
  bool accumulates() const { return this->job_.training.gradient_accumulation > 1; }

  std::int32_t scaled_losses_ = 1;
  SlotId scaled_loss_ = -1, kernel_flag_ = -1;
  std::int64_t ranks_ = 1;                       // that share gradients and states: data x context
  ElementType stored_ = ElementType::kBFloat16;  // of the parameters
  ElementType master_ = ElementType::kFloat32;   // of what is stepped
};

// Stage 0: FP16_Optimizer, or the plain optimizer in fp32.
template <class N>
std::unique_ptr<EngineModel<N>> make_deepspeed_unpartitioned(const EngineContext<N>& context);
// BF16_Optimizer: stage 1 (or a pipeline without ZeRO) with a gradient buffer of its own.
template <class N>
std::unique_ptr<EngineModel<N>> make_deepspeed_bf16(const EngineContext<N>& context);
// DeepSpeedZeroOptimizer.
template <class N>
std::unique_ptr<EngineModel<N>> make_deepspeed_zero12(const EngineContext<N>& context);
// DeepSpeedZeroOptimizer_Stage3.
template <class N>
std::unique_ptr<EngineModel<N>> make_deepspeed_zero3(const EngineContext<N>& context);

extern template class DeepSpeedModel<Checked>;
extern template class DeepSpeedModel<Traced>;

}  // namespace steelyard
