#include "engine/gradient_norm.h"

#include <algorithm>

namespace steelyard {

namespace {

// ForeachReduceOp.cu and MultiTensorApply.cuh of PyTorch; multi_tensor_l2norm of Apex and Transformer Engine.
constexpr std::int64_t kChunk = 65'536, kBlocks = 320;
// Reduce.cuh: threads of a block, and how many values each of them takes at least and at most where several blocks share.
constexpr std::int64_t kThreads = 512, kThreadsOfMultiprocessor = 2'048;
constexpr std::int64_t kLeastValues = 16, kMostValues = 256;

}  // namespace

template <class N>
GradientNorm<N>::GradientNorm(Workbook<N>& book, std::int64_t multiprocessors)
    : book_(book), multiprocessors_(multiprocessors) {
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
std::int64_t GradientNorm<N>::blocks_of_a_reduction(std::int64_t elements) const {
  const auto divide_up = [](std::int64_t total, std::int64_t size) {
    return (total + size - 1) / size;
  };
  const std::int64_t each = divide_up(elements, kThreads);
  if (each < kMostValues) return 1;
  return std::max(std::min(multiprocessors_ * kThreadsOfMultiprocessor / kThreads,
                           divide_up(each, kLeastValues)),
                  divide_up(each, kMostValues));
}

template <class N>
void GradientNorm<N>::one_by_one(std::int64_t tensors, ElementType type, const Copy& copy,
                                 bool squares, Events& events, const Meanwhile& meanwhile) {
  if (tensors == 0) return hold(1, events);
  const SlotId of_tensors = norms(tensors, type);
  const SlotId stacked = slot("norms, stacked", "clip.norms", N(tensors), type);
  if (copy.slot >= 0) {
    const SlotId so_far = copy.place > 0 ? norms(copy.place, type) : of_tensors;
    events.push_back({so_far, 1});
    events.push_back({copy.slot, 1});
    if (const std::int64_t blocks = blocks_of_a_reduction(copy.elements); blocks > 1) {
      const SlotId sums =
          slot("sums of blocks of the largest", "clip.partial-sums", N(blocks), type);
      events.push_back({sums, 1});
      numbers(1, events);  // by which the last block knows that it is the last
      events.push_back({sums, -1});
    }
    events.push_back({copy.slot, -1});
    events.push_back({so_far, -1});
  }
  events.push_back({of_tensors, 1});
  events.push_back({stacked, squares ? 2 : 1});
  if (squares) events.push_back({stacked, -1});
  hold(1, events);
  if (!meanwhile.squares) events.push_back({stacked, -1});
  numbers(meanwhile.numbers, events);
  if (meanwhile.squares) events.push_back({stacked, -1});
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
