// What the first rank of Megatron's distributed optimizer steps: its part of the buffer of gradients, in which the last tensors
// come first, whatever it cuts.
//
//   buffer    | head 525 M | norm 4 k | layer 31: fc2 117 M  fc1 235 M | layer 30 ...        in d parts of one size
//   rank 0    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^                                      525 M, 4 k, 117 M, 104 M of fc1
//
// fp32 parameters and states are tensors of these pieces. Experts have a buffer of their own; a table that two stages share has
// a bucket of its own in it. Interleaved chunks have buffers of their own, too, which are cut here as if they were one.
//
// Source: megatron/core/optimizer/distrib_optimizer.py, _build_gbuf_range_map; distributed/param_and_grad_buffer.py (0.16).
#pragma once

#include <vector>

#include "engine/by_stage.h"
#include "engine/megatron_eight_bits.h"

namespace steelyard {

template <class N>
struct SharePiece {
  const TensorShare<N>* of = nullptr;
  std::int64_t elements = 0;
  std::int64_t count = 1;  // equal pieces, one behind the other
};

template <class N>
struct BufferShare {
  N elements{}, of_vectors{};
  std::vector<SharePiece<N>> pieces;  // in the order of the buffer
};

template <class N>
class MegatronShare : public MegatronEightBits<N> {
 public:
  using typename EngineModel<N>::Events;
  using MegatronEightBits<N>::MegatronEightBits;

 protected:
  // Slots of all pieces together: of matrices, which decay, and of vectors, which do not and come second.
  struct Share {
    struct Group {
      SlotId master = -1, list = -1;
      std::vector<SlotId> states;
    };
    Group matrices, vectors;
    SlotId gradients = -1;  // copies in fp32, while it steps
  };
  // From here on share_of() has answers, for optimizers whose states are as large as what they step and that step all of a group
  // at once. `stepped`: as for state_slots().
  void step_share(ElementType stepped, bool widens_gradients);
  // Null: parts of each tensor are stepped. So it is where buckets are reduced while backward runs, which only a first stage does
  // (distributed_data_parallel.py): there each large tensor is a bucket.
  const Share* share_of(const Stage<N>& stage);
  const Share* known_share(const Stage<N>& stage) const {
    return steps_share_of(stage) ? &shares_.at(stage) : nullptr;
  }
  static void hold_one(SlotId slot, std::int32_t count, Events& events) {
    if (slot >= 0) events.push_back({slot, count});
  }
  // Elements of the matrix of which a piece is widened last.
  std::int64_t last_matrix_of_share(const Stage<N>& stage);

  ShardRanks ranks_;  // that share a buffer

 private:
  using Tensors = typename EngineModel<N>::Tensors;

  bool steps_share_of(const Stage<N>& stage) const {
    return steps_share_ && (stage.index > 0 || !this->job_.overlap_reduce.value_or(false));
  }
  const BufferShare<N>& pieces_of(const Stage<N>& stage);
  SlotId slot_of_pieces(const BufferShare<N>& share, Tensors which, const SlotName& name, Pile pile,
                        ElementType type);
  typename Share::Group group_of(const BufferShare<N>& share, Tensors which);

  bool steps_share_ = false, widens_gradients_ = false;
  ElementType stepped_ = ElementType::kFloat32;
  ByStage<N, BufferShare<N>> pieces_;
  ByStage<N, Share> shares_;
};

extern template class MegatronShare<Checked>;
extern template class MegatronShare<Traced>;

}  // namespace steelyard
