// Megatron's weights where Transformer Engine multiplies in 8 bits: those of the products, and all others.
//
//   parameters in 16 bits   beside each matrix of a layer a copy in 8 bits: by rows, and by columns where that is kept
//   parameters in 8 bits    1P or 2P in place of the 2P of layers' matrices; master weights are rounded before they become 8 bits
//
// Sources: transformer_engine/pytorch/module/base.py; megatron/core/fp8_utils.py.
#pragma once

#include "engine/megatron_loop.h"

namespace steelyard {

template <class N>
class MegatronEightBits : public MegatronLoop<N> {
 public:
  using MegatronLoop<N>::MegatronLoop;

 protected:
  // Of the matrices of layers: a Hopper device multiplies in one layout only and keeps the other, too.
  SlotSet eight_bit_weights();
  // Where parameters have 8 bits, those that no product reads.
  SlotSet beside_products(ElementType type) {
    return of_tensors({"", "parameters", "megatron.parameter-buffer"}, type, bytes_each(type),
                      false);
  }
  // This rank's part of the master weights, rounded before it becomes 8 bits. With MXFP8 the buffer of gradients takes it.
  SlotSet rounded_masters(ElementType type, const ShardRanks& ranks);

 private:
  // Whether 8-bit products read it: matrices of layers.
  bool is_of_product(const Unit<N>& unit, const TensorShare<N>& share) const;
  // A tensor for each matrix of a layer, or for each of the others.
  SlotSet of_tensors(const SlotName& name, ElementType type, double bytes, bool matrices);
};

extern template class MegatronEightBits<Checked>;
extern template class MegatronEightBits<Traced>;

}  // namespace steelyard
