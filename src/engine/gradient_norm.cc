#include "engine/gradient_norm.h"

namespace steelyard {

namespace {

// ForeachReduceOp.cu and MultiTensorApply.cuh of PyTorch; multi_tensor_l2norm of Apex and Transformer Engine.
constexpr std::int64_t kChunk = 65'536, kBlocks = 320;

}  // namespace

template <class N>
GradientNorm<N>::GradientNorm(Workbook<N>& book) : book_(book) {
  number_ = slot("numbers between norm and factor", "clip.numbers", N(1), ElementType::kFloat32);
  blocks_ = slot("sums of blocks", "clip.partial-sums", N(kBlocks), ElementType::kFloat32);
}

template <class N>
SlotId GradientNorm<N>::norms(std::int64_t tensors, ElementType type, const char* rule) {
  TensorSum each = book_.tensor_sum();
  each.add(Bytes(kAllocationGranularity), tensors, 0);
  return book_.slot_of_tensors({"optimizer", "norms of the gradients", rule}, Pile::kTemporary,
                               N(tensors), type, std::move(each));
}

template <class N>
void GradientNorm<N>::by_foreach(std::int64_t tensors, std::int64_t largest, ElementType type,
                                 Events& events) {
  if (tensors == 0) return hold(1, events);
  const SlotId of_tensors = norms(tensors, type);
  const SlotId chunks =
      slot("sums of chunks", "clip.partial-sums", N(tensors) * ceil_divide(N(largest), N(kChunk)),
           ElementType::kFloat32);
  const SlotId stacked = slot("norms, stacked", "clip.norms", N(tensors), type);
  events.push_back({chunks, 1});
  events.push_back({of_tensors, 1});
  events.push_back({chunks, -1});
  events.push_back({stacked, 1});
  hold(1, events);
  for (const SlotId used : {stacked, of_tensors}) events.push_back({used, -1});
}

template <class N>
void GradientNorm<N>::one_by_one(std::int64_t tensors, ElementType type, SlotId copy, bool squares,
                                 Events& events) {
  if (tensors == 0) return hold(1, events);
  const SlotId of_tensors = norms(tensors, type);
  const SlotId stacked = slot("norms, stacked", "clip.norms", N(tensors), type);
  // The largest may be the last one.
  events.push_back({of_tensors, 1});
  if (copy >= 0) {
    events.push_back({copy, 1});
    events.push_back({copy, -1});
  }
  events.push_back({stacked, squares ? 2 : 1});
  if (squares) events.push_back({stacked, -1});
  hold(1, events);
  events.push_back({stacked, -1});
  events.push_back({of_tensors, -1});
}

template <class N>
void GradientNorm<N>::in_one_pass(Events& events) {
  // A zero to begin with, a flag for overflow, the result; then its square, summed over the ranks, and its root.
  hold(3, events);
  events.push_back({blocks_, 1});
  events.push_back({blocks_, -1});
  hold(1, events);
  hold(-3, events);
}

template class GradientNorm<Checked>;
template class GradientNorm<Traced>;

}  // namespace steelyard
