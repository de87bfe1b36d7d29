// Matrix products and what tensor parallelism puts around them.
//
//   linear          keeps x (for the weight's gradient); the weight is kept by reference
//   column_linear   weight cut by rows: output 1/t.  Input gradient is partial: all-reduced, or reduce-scattered
//   row_linear      weight cut by columns: input 1/t. Output is partial: all-reduced, or reduce-scattered
//
// With sequence parallelism a column linear gathers its input (b·s·h, for a moment) and keeps only its shard, gathering
// again in backward (Megatron-LM core/tensor_parallel/layers.py); torch's DTensor keeps the gathered tensor.
#include <algorithm>

#include "operators/composer.h"

namespace steelyard {

template <class N>
int Composer<N>::parameter_of(int index, const N& elements, bool of_product) {
  if (!has_gradient(index)) return -1;
  int& known = parameter_ids_[place_of(index)];
  if (known >= 0) return known;
  const char* name = parameters_[place_of(index)].name.c_str();
  if (shared_gradients_ && (*shared_gradients_)[place_of(index)].kept >= 0)
    return known = graph.parameter((*shared_gradients_)[place_of(index)]);
  GradientSlots slots =
      gradient_slots({name, "gradient", "autograd.parameter-gradient"}, elements, of_product);
  if (place_of(index) == 0) {
    slots.waiting = waiting_.part;
    slots.sum = waiting_.sum;
    slots.waiting_was_cast = waiting_is_own_ || style.weight_gradient != style.gradient;
    slots.waits = first_waits_;
  }
  if (!slots.waits) step_at_once(slots, parameters_[place_of(index)], elements);
  if (shared_gradients_) (*shared_gradients_)[place_of(index)] = slots;
  return known = graph.parameter(slots);
}

template <class N>
int Composer<N>::replicated_parameter(int index, const N& elements, const N& whole) {
  if (!has_gradient(index)) return -1;
  int& known = parameter_ids_[place_of(index)];
  if (known >= 0) return known;
  const char* name = parameters_[place_of(index)].name.c_str();
  // A tied head's gradient is cut, and so is the sum.
  const bool cut = style.cuts_gradients_at_once || waiting_.part >= 0;
  GradientSlots slots = gradient_slots({name, "gradient", "autograd.parameter-gradient"},
                                       cut ? elements : whole, false);
  if (cut)
    slots.computed = book.slot({name, "gradient of the whole", "tensor.replicated-gradient"},
                               Pile::kTemporary, whole, style.gradient);
  if (place_of(index) == 0) slots.waiting = waiting_.part;
  slots.waiting_was_cast = style.weight_gradient != style.gradient;
  return known = graph.parameter(slots);
}

template <class N>
int Composer<N>::widened_parameter(int index, const N& elements) {
  if (!has_gradient(index)) return -1;
  int& known = parameter_ids_[place_of(index)];
  if (known >= 0) return known;
  GradientSlots* shared = shared_gradients_ ? &(*shared_gradients_)[place_of(index)] : nullptr;
  if (shared != nullptr && shared->kept >= 0) return known = graph.parameter(*shared);
  const char* name = parameters_[place_of(index)].name.c_str();
  GradientSlots slots =
      gradient_slots({name, "gradient", "autograd.parameter-gradient"}, elements, false);
  if (bits_of(style.gradient) < 32)
    slots.computed = book.slot({name, "fp32 gradient before its cast", "op.router.fp32-input"},
                               Pile::kTemporary, elements, ElementType::kFloat32);
  step_at_once(slots, parameters_[place_of(index)], elements);
  if (shared != nullptr) *shared = slots;
  return known = graph.parameter(slots);
}

template <class N>
GradientSlots Composer<N>::gradient_slots(const SlotName& name, const N& elements,
                                          bool of_product) {
  GradientSlots slots;
  slots.kept = book.slot(name, Pile::kGradients, elements, style.gradient);
  if (of_product && style.weight_gradient != style.gradient)
    slots.computed = book.slot({name.owner, "gradient before its cast", "autocast.gradient-cast"},
                               Pile::kTemporary, elements, style.weight_gradient);
  return slots;
}

template <class N>
ValueId Composer<N>::linear(ValueId x, const Linear& linear, const N& rows, const N& in,
                            const N& out) {
  const ValueId y = base_product(x, linear, rows, in, out);
  return linear.adapter ? adapted(x, y, linear, rows, in, out) : y;
}

template <class N>
ValueId Composer<N>::base_product(ValueId x, const Linear& linear, const N& rows, const N& in,
                                  const N& out) {
  const std::optional<ElementType> stored = stored_type(linear.weight_index);
  const bool quantised = stored && is_quantised(*stored);
  if (style.eight_bits == EightBitCode::kFloat8Linear && in_layer && !quantised)
    return float8_product(x, linear, rows, in, out);
  Factor factor;
  factor.weight_gradient = parameter(linear.weight_index, in * out);
  factor.bias_gradient = parameter(linear.bias_index, out);
  factor.biased = linear.bias;
  factor.type = style.compute;
  factor.stored = stored;
  return quantised ? quantised_product(x, linear, *stored, rows, in, out)
                   : product(x, {linear.name.c_str(), "output", "op.linear.output"}, rows, in, out,
                             factor);
}

template <class N>
ValueId Composer<N>::product(ValueId x, const SlotName& output, const N& rows, const N& in,
                             const N& out, const Factor& factor) {
  const char* owner = output.owner;
  const bool trains = factor.weight_gradient >= 0;
  ValueId weight = kNoValue;
  if (style.autocast && factor.stored != factor.type) {
    // The cache takes leaves that ask for gradients (aten/src/ATen/autocast_mode.cpp, cached_cast).
    const auto cast_parameter = [&](const char* name, const N& elements, bool of_leaf) {
      const ValueId copy =
          made("cast", {}, {owner, name, "autocast.weight-cast"}, elements, factor.type);
      if (of_leaf || style.scores) graph.linger(copy);
      return copy;
    };
    // Arguments are cast from the last to the first: so GCC builds the wrapper's call (autocast_mode.h, WrapFunction_).
    if (factor.biased) cast_parameter("bias, cast", out, factor.bias_gradient >= 0);
    weight = cast_parameter("weight, cast", in * out, trains);
  }
  const ValueId input =
      style.autocast ? cast(x, factor.type, {owner, "input, cast", "autocast.input-cast"}) : x;
  const ValueId y =
      graph.tensor(output, rows * out, factor.type, graph.needs_gradient(x) || trains);
  Operator operation;
  operation.label = "linear";
  operation.inputs = {input};
  operation.outputs = {y};
  if (trains) keep_input(operation, input, owner);
  if (weight != kNoValue && (graph.needs_gradient(x) || factor.keeps_weight))
    operation.saved.push_back(weight);
  if (weight == kNoValue && graph.needs_gradient(x)) keep_weight(operation, owner, in * out);
  operation.arithmetic = {Arithmetic::kProduct, plain(rows), plain(in), plain(out)};
  quantise_gradient(operation, owner, rows * out);
  if (factor.apart >= 0) operation.backward.push_back({BackwardStep::kTemporary, 0, factor.apart});
  if (factor.columns >= 0) operation.passing.push_back(factor.columns);
  // mm: the weight's gradient first; addmm (with bias), and Megatron's: the input's first, then weight, then bias.
  const bool input_first = factor.biased || style.local_layers;
  const BackwardStep of_weight{BackwardStep::kParameterGradient, factor.weight_gradient, -1};
  if (!input_first) operation.backward.push_back(of_weight);
  operation.backward.push_back(kGradient0);
  if (input_first) operation.backward.push_back(of_weight);
  operation.backward.push_back({BackwardStep::kParameterGradient, factor.bias_gradient, -1});
  if (factor.columns >= 0)
    operation.backward.push_back({BackwardStep::kTemporary, 0, factor.columns});
  else if (factor.bias_gradient >= 0)
    sum_rows(operation, owner, rows, out);
  graph.add(operation);
  return y;
}

// aten/src/ATen/native/cuda/Reduce.cuh, setReduceConfig and global_memory_size, where rows are summed: blocks that share a sum
// leave theirs in a buffer, which has a place for every thread of a row of each.
template <class N>
void Composer<N>::sum_rows(Operator& operation, const char* owner, const N& rows, const N& width,
                           const char* what) {
  if (style.implementation != Implementation::kTransformers &&
      style.implementation != Implementation::kTorchtitan)
    return;
  const auto power_below = [](std::int64_t number, std::int64_t most) {
    std::int64_t power = 1;
    while (2 * power <= number && power < most) power *= 2;
    return power;
  };
  const auto parts = [](std::int64_t whole, std::int64_t part) {
    return (whole + part - 1) / part;
  };
  constexpr std::int64_t kMostThreads = 512, kWarp = 32, kFewest = 16, kMost = 256;
  const std::int64_t inputs = plain(rows), outputs = plain(width);
  const std::int64_t at_once = outputs % 4 == 0 ? 4 : outputs % 2 == 0 ? 2 : 1;
  const std::int64_t threads = kMostThreads / at_once;
  const std::int64_t across = power_below(outputs / at_once, threads);
  const std::int64_t height =
      std::min(power_below(inputs, threads), threads / std::min(across, kWarp));
  const std::int64_t block = std::min(across, threads / height);
  if (inputs < height * kFewest && inputs < kMost) return;
  const std::int64_t each = parts(inputs, height);
  const std::int64_t grid = parts(outputs / at_once, block);
  const std::int64_t target = style.multiprocessors * (style.threads_of_each / (block * height));
  if (each < kMost || grid > target) return;
  const std::int64_t sharing =
      std::max(std::min(parts(target, grid), parts(each, kFewest)), parts(each, kMost));
  if (sharing <= 1) return;
  operation.backward.push_back({BackwardStep::kReturned, 0, -1});
  const auto temporary = [&](const char* name, const N& elements) {
    operation.backward.push_back(
        {BackwardStep::kTemporary, 0,
         graph.temporary({owner, name, "op.linear.bias-sums"}, elements, ElementType::kFloat32)});
  };
  temporary(what, N(sharing * block * at_once) * width);
  temporary("semaphores of the partial sums", N(grid));
}

template <class N>
void Composer<N>::keep_weight(Operator& operation, const char* owner, const N& elements) {
  // torchtune leaves parameters where they are.
  if (!style.offloads_saved || style.implementation == Implementation::kTorchtune) return;
  operation.saved_weights.push_back(
      graph.temporary({owner, "weight", "offload.copy-from-host"}, elements, style.compute));
}

template <class N>
std::vector<ValueId> Composer<N>::split(ValueId x, const std::vector<N>& sizes_of_pieces,
                                        const char*) {
  std::vector<ValueId> pieces;
  Operator operation;
  operation.label = "split";
  operation.inputs = {x};
  for (const N& size : sizes_of_pieces) {
    pieces.push_back(graph.view(x, size));
    operation.outputs.push_back(pieces.back());
  }
  // the pieces' gradients are joined into one new tensor
  operation.backward = {kGradient0};
  graph.add(operation);
  return pieces;
}

template <class N>
ValueId Composer<N>::gathered(ValueId x, const N& width, const char* owner) {
  if (!style.distributed_tensors && !style.gathers_once) return x;
  const N whole = sizes.tokens * width;
  Operator operation;
  operation.inputs = {x};
  const double payload = payload_of(whole, graph.type(x));
  if (!style.sequence_parallel) {
    operation.backward_exchanges = {{ExchangeKind::kAllReduce, Axis::kTensor, payload}};
    operation.label = "all-reduce of the gradient";
    operation.outputs = {graph.view(x, whole)};
    operation.backward = {kGradient0};
  } else if (style.gathers_once) {
    operation.forward_exchanges = {{ExchangeKind::kAllGather, Axis::kTensor, payload}};
    operation.backward_exchanges = {{ExchangeKind::kReduceScatter, Axis::kTensor, payload}};
    operation.label = "all-gather";
    operation.outputs = {graph.tensor({owner, "gathered input", "tensor.kept-gathered-input"},
                                      whole, graph.type(x), graph.needs_gradient(x))};
    operation.backward = {kGradient0};
  } else {
    // Gathers and scatters along a dimension that is not the first: one copy more, in the order of the ranks.
    const SlotId by_rank = book.slot({owner, "input by ranks", "tensor.order-of-ranks"},
                                     Pile::kTemporary, whole, graph.type(x));
    operation.forward_exchanges = {{ExchangeKind::kAllGather, Axis::kTensor, payload}};
    operation.backward_exchanges = {{ExchangeKind::kReduceScatter, Axis::kTensor, payload}};
    operation.label = "all-gather";
    operation.outputs = {graph.tensor({owner, "gathered input", "tensor.kept-gathered-input"},
                                      whole, graph.type(x), graph.needs_gradient(x))};
    operation.passing = {by_rank};
    operation.backward = {{BackwardStep::kTemporary, 0, by_rank}, kGradient0};
  }
  graph.add(operation);
  return operation.outputs[0];
}

// A column-parallel product reads all tokens and leaves partial sums of their gradient.
template <class N>
void Composer<N>::exchange_input(Operator& operation, double payload) const {
  const bool both = style.exchanges_beside_products;
  const Beside input = both ? Beside::kInputProduct : Beside::kNothing;
  const Beside weight = both ? Beside::kWeightProduct : Beside::kNothing;
  if (!style.sequence_parallel) {
    operation.backward_exchanges = {{ExchangeKind::kAllReduce, Axis::kTensor, payload, weight}};
    return;
  }
  // In pieces: each rank multiplies its own while the next comes.
  const Beside product = style.exchanges_in_pieces ? Beside::kProduct : Beside::kNothing;
  operation.forward_exchanges = {{ExchangeKind::kAllGather, Axis::kTensor, payload, product}};
  operation.backward_exchanges = {{ExchangeKind::kAllGather, Axis::kTensor, payload, input},
                                  {ExchangeKind::kReduceScatter, Axis::kTensor, payload, weight}};
}

// A row-parallel product leaves partial sums of its output.
template <class N>
void Composer<N>::exchange_output(Operator& operation, double payload) const {
  if (!style.sequence_parallel) {
    operation.forward_exchanges = {{ExchangeKind::kAllReduce, Axis::kTensor, payload}};
    return;
  }
  constexpr int kPieces = 4;  // of a product whose output is scattered
  const bool pieces =
      style.exchanges_in_pieces && operation.arithmetic.kind == Arithmetic::kProduct;
  operation.forward_exchanges = {{ExchangeKind::kReduceScatter, Axis::kTensor, payload,
                                  pieces ? Beside::kProduct : Beside::kNothing,
                                  pieces ? kPieces : 0}};
  operation.backward_exchanges = {{ExchangeKind::kAllGather, Axis::kTensor, payload,
                                   pieces ? Beside::kInputProduct : Beside::kNothing}};
}

template <class N>
ValueId Composer<N>::column_linear(ValueId x, const Linear& linear, const N& in, const N& out) {
  if (style.tensor == 1) return this->linear(x, linear, sizes.tokens, in, out);
  const char* owner = linear.name.c_str();
  const N local_out = out / sizes.tensor;
  const N whole = sizes.tokens * in;
  const ValueId y = graph.tensor({owner, "output", "op.linear.output"}, sizes.tokens * local_out,
                                 style.compute, true);
  Operator operation;
  operation.label = "column linear";
  operation.inputs = {x};
  operation.outputs = {y};
  if (has_gradient(linear.weight_index)) keep_input(operation, x, owner);
  operation.arithmetic = {Arithmetic::kProduct, plain(sizes.tokens), plain(in), plain(local_out)};
  quantise_gradient(operation, owner, sizes.tokens * local_out);
  if (!style.distributed_tensors && !style.gathers_once)
    exchange_input(operation, payload_of(whole, style.compute));
  const BackwardStep of_weight{BackwardStep::kParameterGradient,
                               parameter(linear.weight_index, in * local_out), -1};
  const bool of_weight_first = style.multiplies_as_torch && !linear.bias;
  if (of_weight_first) operation.backward.push_back(of_weight);
  if (style.sequence_parallel && !style.distributed_tensors && !style.gathers_once) {
    const SlotId gathered_input =
        book.slot({owner, "gathered input", "tensor.gathered-input"}, Pile::kCommunication, whole,
                  eight_bits() ? ElementType::kFloat8E4M3 : style.compute);
    if (!style.gathers_into_buffers) operation.passing = {gathered_input};
    const SlotId partial =
        book.slot({owner, "input gradient before reduce-scatter", "tensor.partial-input-gradient"},
                  Pile::kCommunication, whole, style.compute);
    // gather the input again, partial input gradient, its reduce-scatter, then the weight's gradient
    if (!style.gathers_into_buffers)
      operation.backward.push_back({BackwardStep::kTemporary, 0, gathered_input});
    operation.backward.push_back({BackwardStep::kTemporary, 0, partial});
    operation.backward.push_back(kGradient0);
    book.exchange({graph.storage_slot(x), gathered_input, partial}, Exchanged::kBeside);
    // The own shard of the tokens is multiplied while those of other ranks come (tensor_parallel/functional.py).
    if (style.gathers_into_buffers && !style.local_layers) operation.more_launches = {1, 0};
  } else {
    operation.backward.push_back(kGradient0);  // all-reduced in place, or where it was gathered
  }
  if (!of_weight_first) operation.backward.push_back(of_weight);
  if (linear.bias && linear.bias_index >= 0)
    operation.backward.push_back(
        {BackwardStep::kParameterGradient, parameter(linear.bias_index, local_out), -1});
  graph.add(operation);
  return y;
}

template <class N>
ValueId Composer<N>::row_linear(ValueId x, const Linear& linear, const N& in, const N& out) {
  if (style.tensor == 1) return this->linear(x, linear, sizes.tokens, in, out);
  const char* owner = linear.name.c_str();
  const N local_in = in / sizes.tensor;
  const N whole = sizes.tokens * out;
  const ValueId y = graph.tensor({owner, "output", "op.linear.output"}, sizes.shard_tokens * out,
                                 style.compute, true);
  Operator operation;
  operation.label = "row linear";
  operation.inputs = {x};
  operation.outputs = {y};
  if (has_gradient(linear.weight_index)) keep_input(operation, x, owner);
  operation.arithmetic = {Arithmetic::kProduct, plain(sizes.tokens), plain(local_in), plain(out)};
  quantise_gradient(operation, owner, sizes.tokens * out);
  exchange_output(operation, payload_of(whole, style.compute));
  const BackwardStep of_weight{BackwardStep::kParameterGradient,
                               parameter(linear.weight_index, local_in * out), -1};
  const bool of_weight_first = style.multiplies_as_torch && !linear.bias;
  if (style.distributed_tensors) {
    const auto slot = [&](const char* name, const char* rule) {
      return book.slot({owner, name, rule}, Pile::kTemporary, whole, style.compute);
    };
    operation.passing = {slot("output before it is summed", "tensor.partial-output")};
    if (style.sequence_parallel) {
      operation.passing.push_back(slot("output by ranks", "tensor.order-of-ranks"));
      operation.backward.push_back({BackwardStep::kTemporary, 0,
                                    slot("gathered output gradient", "tensor.gathered-gradient")});
      operation.backward.push_back(
          {BackwardStep::kPassing, 0, slot("output gradient by ranks", "tensor.order-of-ranks")});
    }
    if (of_weight_first) operation.backward.push_back(of_weight);
    operation.backward.push_back(kGradient0);
  } else if (style.sequence_parallel) {
    const SlotId partial =
        book.slot({owner, "output before reduce-scatter", "tensor.partial-output"},
                  Pile::kCommunication, whole, style.compute);
    operation.passing = {partial};
    book.exchange({partial, graph.storage_slot(y)}, Exchanged::kWaitedFor);
    if (style.gathers_into_buffers && !style.local_layers)
      operation.more_launches = {0, 1};  // as in column_linear
    const SlotId gathered_gradient =
        book.slot({owner, "gathered output gradient", "tensor.gathered-gradient"},
                  Pile::kCommunication, whole, style.compute);
    if (!style.gathers_into_buffers || style.local_layers)
      operation.backward.push_back({BackwardStep::kTemporary, 0, gathered_gradient});
    if (of_weight_first) operation.backward.push_back(of_weight);
    operation.backward.push_back(kGradient0);
  } else {
    if (of_weight_first) operation.backward.push_back(of_weight);
    operation.backward.push_back(kGradient0);
  }
  if (!of_weight_first) operation.backward.push_back(of_weight);
  if (linear.bias && linear.bias_index >= 0)
    operation.backward.push_back(
        {BackwardStep::kParameterGradient, parameter(linear.bias_index, out), -1});
  graph.add(operation);
  return y;
}

template class Composer<Checked>;
template class Composer<Traced>;

}  // namespace steelyard
