// What an optimizer that a hook calls with each gradient makes: with the first one the states of that tensor, which stay,
// and with every one its temporaries.
//
//   exp_avg, exp_avg_sq     of q_proj, when q_proj's first gradient is there
//   square roots            of q_proj, while it is stepped
#include "operators/composer.h"
#include "recipe/optimizer.h"

namespace steelyard {

template <class N>
void Composer<N>::step_at_once(GradientSlots& slots, const ParameterTensor& tensor,
                               const N& elements) {
  if (style.stepped_in_backward == nullptr) return;
  const Training& training = *style.stepped_in_backward;
  const Optimizer& optimizer = training.optimizer;
  const char* owner = tensor.name.c_str();
  if (style.stepped_copies > 0)
    slots.stepped = book.slot({owner, "temporaries of its step", "optimizer.in-backward"},
                              Pile::kTemporary, N(style.stepped_copies) * elements, style.gradient);
  const auto keep = [&](const char* name, const char* rule, const N& of_each, ElementType type,
                        std::int64_t count) {
    const Bytes each = allocated_size(bytes_of(Elements(Checked(plain(of_each))), type));
    TensorSum sum = book.tensor_sum();
    sum.add(each, count, 0);
    slots.states.push_back(book.slot_of_tensors({owner, name, rule}, Pile::kOptimizerMoments,
                                                N(count) * of_each, type, std::move(sum)));
  };
  if (counts_steps_on_device(training))
    keep("step counters", "optimizer.step-on-device", N(1), ElementType::kFloat32, tensor.copies);
  // Rows that a padded vocabulary adds.
  std::vector<std::int64_t> shape = tensor.shape;
  if (shape.size() == 2 && tensor.copies == 1) shape[0] = plain(elements) / shape[1];
  for (const StateTensor& state : state_tensors(
           optimizer, tensor, shape, state_type(training.precision, optimizer.keeps_master))) {
    if (state.paged) continue;
    const bool whole = state.slot->extent == SlotExtent::kParameter && tensor.copies == 1;
    keep(state.slot->name.c_str(), "optimizer.state",
         whole ? elements : book.counted("elements of a state", state.elements), state.type,
         state.count * tensor.copies);
    // A table for each optimizer, and each tensor has one of its own.
    if (state.slot->extent == SlotExtent::kBlock)
      keep("values of 8 bits", "optimizer.value-table", N(kValuesOf8Bits), ElementType::kFloat32,
           tensor.copies);
  }
}

template class Composer<Checked>;
template class Composer<Traced>;

}  // namespace steelyard
