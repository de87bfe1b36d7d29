// Products with weights of 4 or 8 bits, as bitsandbytes computes them.
//
//   nf4    forward   +weight, dequantised (2·in·out) · y · -weight       few rows: one kernel, no dequantised weight
//          backward  +weight, dequantised · gradient of x · -weight      keeps nothing but the weight; before 0.43 x
//   torchao's nf4, forward and backward alike, not compiled, in·out of each: codes 0.5, then indices 8, values 2, scales 2/64,
//          scaled 2, of high and of low halves apart; +weight is made of them and they go
//   int8   forward   +x in fp16 +x in int8 +y in int32 +y in fp16 ...    keeps x, though nothing reads it again
//          backward  +weight, in x's type · gradient of x · -weight
//
// Sources: bitsandbytes nn/modules.py, autograd/_functions.py, backends/cuda/ops.py (0.50).
#include <utility>

#include "operators/composer.h"

namespace steelyard {

namespace {
constexpr std::int64_t kFusedRows = 1536;  // backends/cuda/ops.py, _gemm_4bit_custom_max_m
constexpr std::int64_t kBlock = 64;
// Launches that backward counts for making a weight of its codes, beside its product.
constexpr std::int8_t kLookUpKernels = 12;
constexpr const char* kTorchaoRule = "quantised.torchao-dequantised";
}  // namespace

// The whole weight in 16 bits; with double quantisation its blocks' largest values in fp32 for a moment.
template <class N>
ValueId Composer<N>::dequantised(const char* owner, ElementType stored, const N& in, const N& out) {
  const ValueId weight =
      graph.tensor({owner, "weight, dequantised", "quantised.dequantised-weight"}, in * out,
                   style.quantised_compute, false);
  Operator operation;
  operation.label = "dequantise";
  operation.outputs = {weight};
  if (of_torchao()) {
    if (style.compiled) {
      graph.add(operation);
      return weight;
    }
    const LookedUp parts = look_up(owner, in * out);
    operation.inputs = {parts.scaled};
    graph.add(operation);
    for (const ValueId part : parts.named) graph.hold(part);
    return weight;
  }
  if (stored == ElementType::kNormalFloat4 && style.adapter->double_quantization)
    operation.passing = {
        graph.temporary({owner, "largest values of the blocks", "quantised.dequantised-constants"},
                        ceil_divide(in * out, N(kBlock)), ElementType::kFloat32)};
  if (comes_back_as_fp16(stored))
    operation.passing.push_back(graph.temporary({owner, "weight, fp16", "quantised.weight-in-fp16"},
                                                in * out, ElementType::kFloat16));
  graph.add(operation);
  return weight;
}

// torchao/dtypes/nf4tensor.py, NF4Tensor.get_original_weight (0.6 to 0.15): all of these have names until the weight is made.
template <class N>
typename Composer<N>::LookedUp Composer<N>::look_up(const char* owner, const N& elements) {
  const auto made = [&](const char* name, const N& count, ElementType type, std::int8_t kernels,
                        ValueId read) {
    const ValueId value = graph.tensor({owner, name, kTorchaoRule}, count, type, false);
    Operator operation;
    operation.label = "dequantise";
    if (read != kNoValue) operation.inputs = {read};
    operation.outputs = {value};
    operation.more_launches.forward = kernels;
    graph.add(operation);
    return value;
  };
  const auto in_halves = [&](ValueId value) {
    graph.book().cut(graph.storage_slot(value), 2);
    return value;
  };
  const ElementType type = style.quantised_compute;
  const ValueId codes =
      made("halves of the code's bytes", elements, ElementType::kNormalFloat4, 1, kNoValue);
  const ValueId indices =
      in_halves(made("indices into the code", elements, ElementType::kInt64, 1, codes));
  const ValueId values = in_halves(made("values of the code", elements, type, 1, indices));
  const ValueId scales =
      made("scales of the blocks", ceil_divide(elements, N(kBlock)), type, 2, kNoValue);
  const ValueId scaled = in_halves(made("values, scaled", elements, type, 3, values));
  return {scaled, {indices, values, scales}};
}

// The same within backward, which has no names for what autograd does not see: the bytes of the code, and then all of the rest.
template <class N>
std::array<SlotId, 2> Composer<N>::looked_up_in_backward(const char* owner, const N& elements) {
  const ElementType type = style.quantised_compute;
  const auto bytes = [](const N& count, ElementType of) {
    return allocated_size(bytes_of(Elements(Checked(plain(count))), of));
  };
  const N half = ceil_divide(elements, N(2)), scales = ceil_divide(elements, N(kBlock));
  TensorSum tensors = graph.book().tensor_sum();
  tensors.add(bytes(half, ElementType::kInt64), 2, 0);
  tensors.add(bytes(half, type), 2, 0);  // values
  tensors.add(bytes(scales, type), 1, 0);
  tensors.add(bytes(half, type), 2, 0);  // scaled
  tensors.add(bytes(elements, type), 1, 0);
  return {graph.temporary({owner, "halves of the code's bytes", kTorchaoRule}, elements,
                          ElementType::kNormalFloat4),
          graph.book().slot_of_tensors({owner, "weight and what it is made of", kTorchaoRule},
                                       Pile::kTemporary, N(7) * elements + scales, type,
                                       std::move(tensors))};
}

template <class N>
ValueId Composer<N>::quantised_product(ValueId x, const Linear& linear, ElementType stored,
                                       const N& rows, const N& in, const N& out) {
  const char* owner = linear.name.c_str();
  const ElementType type = style.quantised_compute;
  const ElementType given = graph.type(x);
  const bool eight_bits = stored == ElementType::kInt8;
  Operator operation;
  operation.label = "quantised linear";
  ValueId input = x;
  ValueId weight = kNoValue;
  if (!eight_bits) {
    input = cast(x, type, {owner, "input, cast", "quantised.input-cast"});
    if (of_torchao() || style.always_dequantises || plain(rows) > kFusedRows)
      weight = dequantised(owner, stored, in, out);
  }
  const ValueId y = graph.tensor({owner, "output", "quantised.output"}, rows * out,
                                 eight_bits ? given : type, graph.needs_gradient(x));
  operation.inputs = {input};
  if (weight != kNoValue) operation.inputs.push_back(weight);
  operation.outputs = {y};
  // Nothing reads it again.
  if (!eight_bits && style.quantised_keeps_input) {
    operation.saved = {input};
    operation.saved_by_node = true;
  }
  const BackwardStep again{
      BackwardStep::kTemporary, 0,
      graph.temporary({owner, "weight, dequantised", "quantised.dequantised-weight"}, in * out,
                      eight_bits ? given : type)};
  if (eight_bits) {
    // An attribute of its node: a checkpoint, which sees what is saved for backward, does not let it go.
    operation.saved = {x};
    operation.saved_by_node = true;
    const char* rule = "quantised.int8-product";
    const auto slot = [&](const char* name, const N& elements, ElementType of) {
      return graph.temporary({owner, name, rule}, elements, of);
    };
    operation.passing = {slot("input, int8", rows * in, ElementType::kInt8),
                         slot("scales of the input's rows", rows, ElementType::kFloat32),
                         slot("output, int32", rows * out, ElementType::kInt32)};
    if (given != ElementType::kFloat16)
      operation.passing.push_back(slot("output, fp16", rows * out, ElementType::kFloat16));
  } else if (of_torchao()) {
    if (!style.compiled) {
      for (const SlotId passing : looked_up_in_backward(owner, in * out))
        operation.backward.push_back({BackwardStep::kPassing, 0, passing});
      operation.more_launches.backward = kLookUpKernels;
    }
  } else if (style.adapter->double_quantization) {
    operation.backward.push_back(
        {BackwardStep::kPassing, 0,
         graph.temporary({owner, "largest values of the blocks", "quantised.dequantised-constants"},
                         ceil_divide(in * out, N(kBlock)), ElementType::kFloat32)});
  }
  if (comes_back_as_fp16(stored))  // until it has been cast
    operation.backward.push_back(
        {BackwardStep::kPassing, 0,
         graph.temporary({owner, "weight, fp16, beside its cast", "quantised.weight-in-fp16"},
                         N(2) * in * out, ElementType::kFloat16)});
  operation.backward.push_back(again);
  operation.backward.push_back(kGradient0);
  operation.arithmetic = {Arithmetic::kProduct, plain(rows), plain(in), plain(out)};
  graph.add(operation);
  return eight_bits ? y : cast(y, given, {owner, "output, cast back", "quantised.output"});
}

template class Composer<Checked>;
template class Composer<Traced>;

}  // namespace steelyard
