// What DeepSpeed's ZeRO-3 keeps of a stage: partitions, buckets and buffers, and what of them is on the host.
//
//   a tensor    ceil(elements / N) of it on each rank, rounded on its own; a small one stands whole between steps
//   a bucket    gradients in the order of backward; one that finds no room has it reduced first
//   the step    sub-groups, each closed by the partition that fills it
//
// Source: deepspeed/runtime/zero/stage3.py (0.19.8).
#pragma once

#include <vector>

#include "engine/deepspeed.h"
#include "engine/zero_transport.h"

namespace steelyard {

template <class N>
class Zero3Partitions : public DeepSpeedModel<N> {
 public:
  using typename EngineModel<N>::Events;

  explicit Zero3Partitions(const EngineContext<N>& context)
      : DeepSpeedModel<N>(context),
        accumulated_(this->job_.training.precision.accumulated_gradients.value_or(this->stored_)),
        transport_(this->job_, this->book_, this->stored_, this->ranks_) {}

  HostMemory host(const Stage<N>& stage) const override;

 protected:
  struct Buffers {
    SlotId shares = -1, gradients = -1, master = -1, gathered = -1, scattered = -1, joined = -1,
           stepped = -1, saved = -1, norm_copy = -1, hooked = -1, hooked_part = -1;
    bool keeps_all = false;  // what forward gathers stays until backward has used it
    // The bucket is full before backward is done, and before the embedding's gradient comes; else it is reduced behind it.
    bool fills = false, fills_in_layers = false;
    std::int64_t bucket = 0;  // elements of the fullest
    std::int64_t copied = 0;  // and of the fullest that is copied to be reduced
    std::int32_t sub_groups = 1;
    typename GradientNorm<N>::Copy largest;
    std::int64_t tensors = 0;  // of the sub-group that has most
    typename DeepSpeedModel<N>::FlatStates states;
  };

  bool persists(const TensorShare<N>& share) const {
    return this->job_.buckets.persists(plain(share.elements));
  }
  // A part of each tensor, rounded on its own. `small`: of those that stand whole from the first backward to the step, which
  // divides them again; else of all others.
  SlotId parts_of(const Unit<N>& unit, bool small, const N& ranks, const SlotName& name);
  Buffers make_buffers(const Stage<N>& stage);

  ElementType accumulated_;
  ZeroTransport<N> transport_;
  ByStage<N, Buffers> buffers_;

 private:
  N share_elements(const Stage<N>& stage, Of of) const;
  // What must be fetched: all but the small parameters.
  N fetched_elements(const Stage<N>& stage, Of of) const;
  // Sub-groups, each closed by the partition that fills it, and the most tensors of one.
  void count_sub_groups(const Stage<N>& stage, Buffers& buffers) const;
  // Gradients fill the bucket in the order of backward; the one that does not fit any more has it reduced.
  void count_bucket(const Stage<N>& stage, Buffers& buffers) const;
  // Of all gradients in the order of modules, equal layers twice at most.
  std::vector<std::vector<std::int64_t>> shapes_of(const Stage<N>& stage) const;
};

extern template class Zero3Partitions<Checked>;
extern template class Zero3Partitions<Traced>;

}  // namespace steelyard
