// The norm of all gradients, and gradients scaled by it: what that allocates before a step.
//
//   foreach       +sums of chunks +norms    -sums of chunks +norms, stacked +norm    -stacked -norms    ...factor...
//   one by one    +norm of each tensor, perhaps of a wider copy of it     +norms, stacked +norm     -stacked -norms
//   one pass      +sums of blocks +norm                                             (Megatron's multi_tensor_l2norm)
//
// Gradients are scaled in place. A single number takes a block of 512 bytes.
#pragma once

#include <vector>

#include "ledger/workbook.h"

namespace steelyard {

template <class N>
class GradientNorm {
 public:
  using Events = std::vector<Event>;

  GradientNorm(Workbook<N>& book, std::int64_t multiprocessors);

  // Each leaves one number alive, the norm of all. `largest`: elements of the largest tensor.
  void by_foreach(std::int64_t tensors, std::int64_t largest, ElementType type, Events& events);
  // The largest of the tensors is copied to `slot` before its norm is taken; -1: it is read as it is.
  struct Copy {
    SlotId slot = -1;
    std::int64_t elements = 0;
    std::int64_t place = 0;  // among the tensors; 0: it may be the last one
  };
  // What is made while the norms of the tensors still have their names.
  struct Meanwhile {
    std::int32_t numbers = 0;
    bool squares = false;  // their squares, too
  };
  // `type` is that of the norms. `squares`: the stacked norms are squared into a second list.
  void one_by_one(std::int64_t tensors, ElementType type, const Copy& copy, bool squares,
                  Events& events, const Meanwhile& meanwhile = {});
  void in_one_pass(Events& events);

  // So many numbers at once on the way from the norm to the factor.
  void numbers(std::int32_t count, Events& events) const {
    hold(count, events);
    hold(-count, events);
  }
  void hold(std::int32_t count, Events& events) const { events.push_back({number_, count}); }

  // A norm for each of `tensors`, every one a tensor of its own.
  SlotId norms(std::int64_t tensors, ElementType type, const char* rule = "clip.norms");

 private:
  SlotId slot(const char* name, const char* rule, const N& elements, ElementType type) {
    return book_.slot({"optimizer", name, rule}, Pile::kTemporary, elements, type);
  }

  // Blocks of threads that together reduce one tensor to one number; each leaves a partial sum for the last one.
  std::int64_t blocks_of_a_reduction(std::int64_t elements) const;

  Workbook<N>& book_;
  std::int64_t multiprocessors_;
  SlotId number_ = -1, blocks_ = -1;
};

extern template class GradientNorm<Checked>;
extern template class GradientNorm<Traced>;

}  // namespace steelyard
