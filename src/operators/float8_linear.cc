// Matrix products of 8-bit factors, as torchao runs them (Float8Linear, 0.18).
//
//   forward    x 2·b·s·h ──quantise──> 1 byte ─┐
//              w 2·h·f   ──quantise──> 1 byte ─┴─ product ──> y 2·b·s·f          keeps x, as it was
//   backward   dy and w quantised ─ product ──> dx       dy and x quantised ─ product ──> dw
//
// A factor is quantised by four kernels with a tensor each: in fp32, times its scale, clamped, in 8 bits. Compiled they are
// one, and only what it writes is there.
#include "operators/composer.h"

namespace steelyard {

namespace {
constexpr const char* kFactor = "float8.factor";
constexpr const char* kScale = "float8.factor-scale";
constexpr const char* kClamped = "float8.clamped-factor";
constexpr ElementType kStored = ElementType::kFloat8E4M3;
constexpr ElementType kWide = ElementType::kFloat32;
}  // namespace

// `scales`: one for each row of the factor, where rows have their own.
template <class N>
std::pair<ValueId, ValueId> Composer<N>::float8_factor(ValueId x, const char* owner,
                                                       const N& elements, const N& scales) {
  const ValueId factor = graph.tensor({owner, "factor, 8 bits", kFactor}, elements, kStored, false);
  const ValueId scale = graph.tensor({owner, "scale of the factor", kScale},
                                     style.row_scales ? scales : N(1), kWide, false);
  Operator quantise;
  quantise.label = "quantise";
  if (x != kNoValue) quantise.inputs = {x};
  quantise.outputs = {factor, scale};
  if (!style.compiled)
    quantise.passing = {
        graph.temporary({owner, "scaled, in fp32", kClamped}, elements, kWide),
        graph.temporary({owner, "scaled and clamped, in fp32", kClamped}, elements, kWide)};
  graph.add(quantise);
  return {factor, scale};
}

// The same in backward, where all factors live until the last product has run.
template <class N>
void Composer<N>::float8_backward_factor(Operator& operation, const char* owner, const N& elements,
                                         const N& scales) {
  const auto step = [&](BackwardStep::Kind kind, const SlotName& name, const N& count,
                        ElementType type) {
    operation.backward.push_back({kind, 0, graph.temporary(name, count, type)});
  };
  step(BackwardStep::kTemporary, {owner, "scale of the factor", kScale},
       style.row_scales ? scales : N(1), kWide);
  step(BackwardStep::kTemporary, {owner, "factor, 8 bits", kFactor}, elements, kStored);
  if (!style.compiled)
    step(BackwardStep::kPassing, {owner, "scaled, and clamped, in fp32", kClamped}, N(2) * elements,
         kWide);
}

template <class N>
ValueId Composer<N>::float8_product(ValueId x, const Linear& linear, const N& rows, const N& in,
                                    const N& out) {
  const char* owner = linear.name.c_str();
  const int weight_gradient = parameter(linear.weight_index, in * out);
  const bool trains = weight_gradient >= 0;
  const auto [input, input_scale] = float8_factor(x, owner, rows * in, rows);
  const auto [weight, weight_scale] = float8_factor(kNoValue, owner, in * out, out);
  const ValueId y = graph.tensor({owner, "output", "op.linear.output"}, rows * out, style.compute,
                                 graph.needs_gradient(x) || trains);
  Operator operation;
  operation.label = "linear";
  operation.inputs = {x, input, input_scale, weight, weight_scale};
  operation.outputs = {y};
  if (trains) operation.saved.push_back(x);
  float8_backward_factor(operation, owner, rows * out, rows);
  float8_backward_factor(operation, owner, in * out, in);
  operation.backward.push_back(kGradient0);
  float8_backward_factor(operation, owner, rows * out, out);
  float8_backward_factor(operation, owner, rows * in, in);
  operation.backward.push_back({BackwardStep::kParameterGradient, weight_gradient, -1});
  operation.arithmetic = {Arithmetic::kProduct, plain(rows), plain(in), plain(out)};
  operation.arithmetic.eight_bits = true;
  graph.add(operation);
  return linear.bias ? biased(y, linear, rows * out, out) : y;
}

// The bias is added by a kernel of its own.
template <class N>
ValueId Composer<N>::biased(ValueId y, const Linear& linear, const N& elements, const N& out) {
  const ValueId sum =
      graph.tensor({linear.name.c_str(), "output with its bias", "op.linear.output"}, elements,
                   style.compute, graph.needs_gradient(y));
  Operator add;
  add.label = "add bias";
  add.inputs = {y};
  add.outputs = {sum};
  add.backward = {kAlias0,
                  {BackwardStep::kParameterGradient, parameter(linear.bias_index, out), -1}};
  graph.add(add);
  return sum;
}

template class Composer<Checked>;
template class Composer<Traced>;

}  // namespace steelyard
