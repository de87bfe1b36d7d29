// How Megatron-FSDP's buckets lie on a stage, and what is padded so that its ranks have equal shards.
//
//   stage 3        embedding, head | layer | layer | ... | experts of a layer | ...    a layer has buckets of its own
//   stages 1, 2    embedding, layers, head | experts                                   as many tensors as reach the size
//
// Source: megatron/core/distributed/fsdp/src/megatron_fsdp/param_and_grad_buffer.py (megatron-core 0.16.1).
#pragma once

#include "engine/megatron_buckets.h"
#include "engine/megatron_loop.h"

namespace steelyard {

template <class N>
class MegatronStageBuckets : public MegatronLoop<N> {
 public:
  explicit MegatronStageBuckets(const EngineContext<N>& context);

 protected:
  static bool is_layer(const Stage<N>& stage, std::size_t unit) {
    return unit > 0 && unit <= stage.layers_of_kind.size();
  }
  N divided_over(const N& elements, bool experts) const;
  // Where parameters are divided a layer has a bucket of its own, and one for its experts.
  std::int64_t padding_of(const Unit<N>& unit, bool experts) const;
  N whole_layer(const Unit<N>& unit) const;
  std::int64_t bucket_size() const;
  // All of a stage, in order: the embedding; the head where layers have their own; layers; the head.
  BucketFiller buckets_of(const Stage<N>& stage) const;

  const ShardRanks ranks_;
  const bool divides_parameters_, divides_gradients_, divides_states_;

 private:
  void fill_with(BucketFiller& filler, const Unit<N>& unit, bool experts) const;
};

extern template class MegatronStageBuckets<Checked>;
extern template class MegatronStageBuckets<Traced>;

}  // namespace steelyard
