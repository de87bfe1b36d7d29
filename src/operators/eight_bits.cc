// Matrix products of 8-bit factors, as Transformer Engine runs them.
//
//   forward    x 2·b·s·h  ->  by rows and by columns, 1 + 1 byte; the product runs; by columns is kept
//   backward   the output's gradient, 1 + 1 byte while it is needed
//
// Weights have copies of their own, which the engine holds.
#include "operators/composer.h"

namespace steelyard {

template <class N>
void Composer<N>::keep_input(Operator& operation, ValueId x, const char* owner) {
  if (!eight_bits()) {
    operation.saved.push_back(x);
    return;
  }
  const N elements = graph.elements(x);  // a copy: new tensors move the others
  const ElementType type = ElementType::kFloat8E4M3;
  Operator quantise;
  quantise.label = "quantise";
  quantise.inputs = {x};
  quantise.outputs = {
      graph.tensor({owner, "input, 8 bits", "float8.saved-input"}, elements, type, false)};
  if (style.eight_bit_blocks)  // four bytes for 128 elements, or one for 32
    quantise.outputs.push_back(graph.tensor({owner, "scales of the input", "float8.scales"},
                                            ceil_divide(elements, N(32)), ElementType::kInt8,
                                            false));
  quantise.passing = {
      graph.temporary({owner, "input, 8 bits, by rows", "float8.both-ways"}, elements, type)};
  graph.add(quantise);
  for (ValueId value : quantise.outputs) operation.saved.push_back(value);
}

template <class N>
void Composer<N>::quantise_gradient(Operator& operation, const char* owner, const N& elements) {
  if (!eight_bits()) return;
  operation.arithmetic.eight_bits = true;
  operation.backward.push_back(
      {BackwardStep::kTemporary, 0,
       graph.temporary({owner, "output gradient, 8 bits, both ways round", "float8.both-ways"},
                       N(2) * elements, ElementType::kFloat8E4M3)});
}

template class Composer<Checked>;
template class Composer<Traced>;

}  // namespace steelyard
