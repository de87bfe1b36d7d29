// The tables that FSDP2's two fused copies read: where each tensor lies, and which block of the kernel copies what.
//
//   split_with_sizes_copy   out of the all-gather's buffer into the parameters     4 n + 1 + blocks numbers
//   chunk_cat               gradients into the reduce-scatter's buffer             6 n + 2 + blocks numbers
//
// n tensors, numbers of 8 bytes, on the device while the copy is launched (aten/src/ATen/native/cuda/TensorShape.cu).
#pragma once

#include "engine/units.h"

namespace steelyard {

template <class N>
std::int64_t numbers_to_copy_out(const Unit<N>& unit, const ShardRanks& ranks, ElementType type,
                                 std::int64_t multiprocessors);
template <class N>
std::int64_t numbers_to_copy_in(const Unit<N>& unit, const ShardRanks& ranks, ElementType type);

}  // namespace steelyard
