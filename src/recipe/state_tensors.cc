// How large each state tensor of an optimizer is.
//
//   adamw-8bit, q_proj [4096, 4096]:
//     state1  16,777,216 x int8     absmax1  65,536 x fp32     (and the same again for the second
//     moment)

#include <algorithm>

#include "quantity/checked.h"
#include "recipe/optimizer.h"

namespace steelyard {
namespace {

// A tensor seen as equal matrices: [..., rows, columns].
struct Matrices {
  Checked batch = 1;
  Checked rows = 1;
  Checked columns = 1;
  bool flat = true;  // one dimension or none
};

Matrices as_matrices(const std::vector<std::int64_t>& shape) {
  Matrices view;
  if (shape.size() < 2) {
    if (!shape.empty()) view.columns = shape[0];
    return view;
  }
  for (std::size_t i = 0; i + 2 < shape.size(); ++i) view.batch *= shape[i];
  view.rows = shape[shape.size() - 2];
  view.columns = shape[shape.size() - 1];
  view.flat = false;
  return view;
}

Checked elements_in(const std::vector<std::int64_t>& shape) {
  Checked elements = 1;
  for (const std::int64_t dimension : shape) elements *= dimension;
  return elements;
}

Checked minimum(Checked a, Checked b) { return a < b ? a : b; }
Checked maximum(Checked a, Checked b) { return a < b ? b : a; }

class Sizes {
 public:
  Sizes(const Optimizer& optimizer, const ParameterTensor& tensor,
        const std::vector<std::int64_t>& shape)
      : optimizer_(optimizer),
        tensor_(tensor),
        elements_(elements_in(shape)),
        local_(as_matrices(shape)),
        whole_(as_matrices(tensor.shape)),
        whole_elements_(elements_in(tensor.shape)) {}

  bool takes(SlotAppliesTo group) const {
    switch (group) {
      case SlotAppliesTo::kAll:
        return true;
      case SlotAppliesTo::kMatrices:
        return !structure().flat;
      case SlotAppliesTo::kVectors:
        return local_.flat;
      case SlotAppliesTo::kHiddenMatrices:
        return is_hidden_matrix();
      case SlotAppliesTo::kNotHiddenMatrices:
        return !is_hidden_matrix();
      case SlotAppliesTo::kLarge:
        return !is_small();
      case SlotAppliesTo::kSmall:
        return is_small();
      case SlotAppliesTo::kEmbeddings:
        return is_embedding();
      case SlotAppliesTo::kNotEmbeddings:
        return !is_embedding();
    }
    return false;
  }

  Checked elements(const OptimizerSlot& slot) const {
    const Matrices& view = structure();
    switch (slot.extent) {
      case SlotExtent::kParameter:
        return elements_;
      case SlotExtent::kRow:
        return local_.flat ? Checked(0) : local_.batch * local_.rows;
      case SlotExtent::kColumn:
        return local_.flat ? Checked(0) : local_.batch * local_.columns;
      case SlotExtent::kBlock:
        return ceil_divide(elements_, slot.block);
      case SlotExtent::kTensor:
        return elements_ == Checked(0) ? 0 : 1;
      case SlotExtent::kRowGram:
        return share(view.batch * gram(view.rows, view.columns, slot));
      case SlotExtent::kColumnGram:
        return share(view.batch * gram(view.columns, view.rows, slot));
      case SlotExtent::kLowRank:
        return share(view.batch * rank(view) * maximum(view.rows, view.columns));
      case SlotExtent::kProjector:
        return share(view.batch * rank(view) * minimum(view.rows, view.columns));
      case SlotExtent::kHead:
        return share(view.batch * heads(view));
    }
    return 0;
  }

  Checked all() const { return elements_; }

 private:
  // The matrices whose rows and columns count: the stepped tensor, or the whole one when the shard
  // is flat.
  const Matrices& structure() const { return local_.flat ? whole_ : local_; }

  // A flat shard holds its part of what the whole matrix has.
  Checked share(Checked of_structure) const {
    if (!local_.flat || whole_elements_ == elements_ || whole_elements_ == Checked(0))
      return of_structure;
    // The product of two tensor sizes needs 128 bits; the quotient is below `of_structure` again.
    __extension__ using Wide = unsigned __int128;
    const auto whole = static_cast<Wide>(whole_elements_.value());
    const Wide product =
        static_cast<Wide>(of_structure.value()) * static_cast<Wide>(elements_.value());
    return static_cast<std::int64_t>((product + whole - 1) / whole);
  }

  Checked rank(const Matrices& view) const {
    return minimum(optimizer_.rank, minimum(view.rows, view.columns));
  }

  // The gram matrices of one side: side x side, or one for each block x block piece of the matrix.
  Checked gram(Checked side, Checked other, const OptimizerSlot& slot) const {
    if (slot.block > 0) {
      const Checked full = side / slot.block;
      const Checked rest = side % slot.block;
      return ceil_divide(other, slot.block) * (full * slot.block * slot.block + rest * rest);
    }
    if (optimizer_.maximum_gram > 0 && side > Checked(optimizer_.maximum_gram)) return 0;
    return side * side;
  }

  Checked heads(const Matrices& view) const {
    if (view.flat || tensor_.head_width <= 0) return 1;
    return ceil_divide(view.rows, tensor_.head_width);
  }

  bool is_embedding() const {
    return tensor_.role == TensorRole::kEmbedding || tensor_.role == TensorRole::kHead;
  }
  bool is_hidden_matrix() const {
    return !whole_.flat && !is_embedding() && tensor_.role != TensorRole::kNorm &&
           tensor_.role != TensorRole::kBias;
  }
  bool is_small() const {
    if (optimizer_.embedding_is_small && tensor_.role == TensorRole::kEmbedding) return true;
    return elements_ < Checked(optimizer_.small_below);
  }

  const Optimizer& optimizer_;
  const ParameterTensor& tensor_;
  Checked elements_;
  Matrices local_;
  Matrices whole_;
  Checked whole_elements_;
};

}  // namespace

std::vector<StateTensor> state_tensors(const Optimizer& optimizer, const ParameterTensor& tensor,
                                       const std::vector<std::int64_t>& shape,
                                       ElementType stepped) {
  const Sizes sizes(optimizer, tensor, shape);
  std::vector<StateTensor> states;
  states.reserve(optimizer.slots.size());
  for (const OptimizerSlot& slot : optimizer.slots) {
    if (!sizes.takes(slot.applies_to)) continue;
    const Checked elements = sizes.elements(slot);
    if (elements == Checked(0)) continue;
    // Only whole-size states are paged; the scales of their blocks stay on the device.
    const bool paged = optimizer.paged && slot.extent == SlotExtent::kParameter &&
                       sizes.all() >= Checked(optimizer.paged_from);
    states.push_back({&slot, elements.value(), slot.type.value_or(stepped), slot.count, paged});
  }
  return states;
}

}  // namespace steelyard
