// How ZeRO-3's parameters and gradients travel between ranks, and what of it stands on the device for a moment.
//
//   fetched      a tensor alone arrives where it stays; several together in one flat tensor, and are copied out of it
//   in 8 bits    codes of all ranks, a scale for each group of them; fp16 of all; then each in its own type     (ZeRO++ qwZ)
//   reduced      a full bucket once more, ordered by rank
//   in 4 bits    tensor by tensor: codes sent and received inside the machine, summed, sent and received between
//                machines, then fp16; what one tensor has left goes while the next one's is made              (ZeRO++ qgZ)
//
// Sources: deepspeed/runtime/zero/partition_parameters.py, deepspeed/runtime/comm/coalesced_collectives.py,
// csrc/quantization/pt_binding.cpp (0.19.8).
#pragma once

#include <cstdint>
#include <vector>

#include "engine/units.h"
#include "ledger/workbook.h"

namespace steelyard {

// Groups that share a scale when so many elements are quantised to 8 bits; 0: no number of groups divides them.
std::int64_t quantised_groups(std::int64_t elements);

// The most that the exchange in 4 bits holds at once when tensors of these shapes come one after another.
Bytes four_bit_exchange(const std::vector<std::vector<std::int64_t>>& shapes, std::int64_t ranks,
                        std::int64_t ranks_of_machine);

template <class N>
class ZeroTransport {
 public:
  ZeroTransport(const Job& job, Workbook<N>& book, ElementType stored, std::int64_t ranks)
      : job_(job), book_(book), stored_(stored), ranks_(ranks) {}

  // What stands beside the parameters while the unit's worst group is fetched.
  std::vector<SlotId> fetch_of(const Unit<N>& unit);
  // What of it is under way while something before it is fetched.
  std::vector<SlotId> ahead_of(const Unit<N>& unit);
  // In the very first micro-batch each is fetched alone: the parameter itself, too.
  std::vector<SlotId> first_fetch_of(const Unit<N>& unit);
  // Of the fullest bucket, and of the fullest that is copied; `shapes`: of what may be in them, in order.
  SlotId reduction_of(std::int64_t bucket, std::int64_t copied,
                      const std::vector<std::vector<std::int64_t>>& shapes);

 private:
  struct Group {
    N elements{}, padded{}, largest{};  // padded: of all ranks
    std::int64_t tensors = 0, part = 0;
  };
  Group with(Group group, const TensorShare<N>& share, std::int64_t copies) const;
  std::int64_t bytes_beside(const Group& group) const;
  Group worst_group(const Unit<N>& unit) const;
  std::vector<SlotId> slots_of(const Unit<N>& unit, const Group& group);
  bool persists(const TensorShare<N>& share) const {
    return job_.buckets.persists(plain(share.elements));
  }

  const Job& job_;
  Workbook<N>& book_;
  ElementType stored_;
  std::int64_t ranks_;
};

extern template class ZeroTransport<Checked>;
extern template class ZeroTransport<Traced>;

}  // namespace steelyard
