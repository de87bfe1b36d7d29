#include "engine/megatron_stage_buckets.h"

#include <algorithm>

namespace steelyard {

namespace {

// training.py, ddp_bucket_size: 40 million elements, or a million for each rank; none where nothing is overlapped.
constexpr std::int64_t kBucket = 40'000'000, kBucketOfRank = 1'000'000;

template <class N>
BucketTensor bucket_tensor(const TensorShare<N>& share) {
  const std::int64_t rows = share.shape.empty() ? 1 : std::max<std::int64_t>(1, share.shape[0]);
  return {plain(share.elements), plain(share.elements) / rows};
}

}  // namespace

template <class N>
MegatronStageBuckets<N>::MegatronStageBuckets(const EngineContext<N>& context)
    : MegatronLoop<N>(context),
      ranks_{
          this->job_.parallel.data * this->job_.parallel.context / this->job_.parallel.replicate,
          std::max<std::int64_t>(1, expert_data_ranks(this->job_) / this->job_.parallel.replicate)},
      divides_parameters_(this->job_.parallel.zero_stage == 3 && ranks_.dense > 1),
      divides_gradients_(this->job_.parallel.zero_stage >= 2 && ranks_.dense > 1),
      divides_states_(this->job_.parallel.zero_stage >= 1) {}

template <class N>
N MegatronStageBuckets<N>::divided_over(const N& elements, bool experts) const {
  return ceil_divide(elements, experts ? Workbook<N>::symbol("Ne", ranks_.of_experts)
                                       : Workbook<N>::symbol("N", ranks_.dense));
}

template <class N>
void MegatronStageBuckets<N>::fill_with(BucketFiller& filler, const Unit<N>& unit,
                                        bool experts) const {
  for (const TensorShare<N>& share : unit.tensors)
    for (std::int64_t copy = 0; share.of_experts() == experts && copy < share.copies; ++copy)
      filler.add(bucket_tensor(share), share.ranks(ranks_));
}

template <class N>
std::int64_t MegatronStageBuckets<N>::padding_of(const Unit<N>& unit, bool experts) const {
  const Unit<N>* first = this->context_.units.kinds.data();
  const bool layer = &unit >= first && &unit < first + this->context_.units.kinds.size();
  if (!layer || this->job_.parallel.zero_stage < 3) return 0;
  BucketFiller filler(0);
  fill_with(filler, unit, experts);
  filler.close();
  return filler.padding();
}

template <class N>
N MegatronStageBuckets<N>::whole_layer(const Unit<N>& unit) const {
  const std::int64_t padding = padding_of(unit, false) + padding_of(unit, true);
  return padding > 0 ? unit.elements + Workbook<N>::counted("padding", padding) : unit.elements;
}

template <class N>
std::int64_t MegatronStageBuckets<N>::bucket_size() const {
  if (!divides_gradients_ && !this->job_.overlap_reduce.value_or(false)) return 0;
  return std::max(kBucket, kBucketOfRank * ranks_.dense);
}

template <class N>
BucketFiller MegatronStageBuckets<N>::buckets_of(const Stage<N>& stage) const {
  const std::vector<const Unit<N>*> units = this->all_units(Of::kAll);
  const std::vector<std::int64_t>& count = this->counts(stage);
  const bool own = this->job_.parallel.zero_stage == 3;
  BucketFiller filler(bucket_size());
  const auto outside = [&](bool from_head) {
    for (std::size_t unit = 0; unit < units.size(); ++unit)
      if (!is_layer(stage, unit) && (unit > 0) == from_head && count[unit] > 0)
        fill_with(filler, *units[unit], false);
  };
  outside(false);
  if (own) {
    outside(true);
    filler.close();
  }
  for (const bool experts : {false, true}) {
    for (std::size_t unit = 1; unit <= stage.layers_of_kind.size(); ++unit)
      for (std::int64_t i = 0; i < count[unit]; ++i) {
        if (own) filler.without_size();
        fill_with(filler, *units[unit], experts);
        if (own) filler.close();
      }
    if (!experts && !own) outside(true);
    filler.close();
  }
  return filler;
}

template class MegatronStageBuckets<Checked>;
template class MegatronStageBuckets<Traced>;

}  // namespace steelyard
