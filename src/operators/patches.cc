// From pixels to the residual stream, and from what the class token has become to the loss: the two ends of a tower of vision.
//
//   pixels ── cast, kept ── convolution ──┐
//                         class token ────┴─ joined ── + positions ── layers ── norm, kept whole ── its first row ── classifier
//
// Sources: transformers models/vit/modeling_vit.py (5.17). The convolution steps by its own width: a product of patches.
#include "operators/ends.h"

namespace steelyard {

template <class N>
ValueId compose_patches(Composer<N>& composer, const Architecture& model, ValueId pixels) {
  Graph<N>& graph = composer.graph;
  const OperatorStyle& style = composer.style;
  const Sizes<N>& sizes = composer.sizes;
  const ImageInput& image = *model.image;
  const char* owner = image.projection.name.c_str();
  const N patches = sizes.tokens - sizes.batch;  // without class tokens
  if (!style.autocast && style.compute != ElementType::kFloat32)
    pixels = composer.cast(pixels, style.compute, {owner, "pixels, cast", "op.patches.cast"});
  typename Composer<N>::Factor factor;
  factor.weight_gradient =
      composer.parameter(image.projection.weight_index, N(image.projection.in) * sizes.hidden);
  factor.bias_gradient = composer.parameter(image.projection.bias_index, sizes.hidden);
  factor.biased = factor.keeps_weight = true;
  factor.type = style.compute;
  ValueId x = composer.product(pixels, {owner, "output", "op.patches.output"}, patches,
                               N(image.projection.in), sizes.hidden, factor);
  // Channels lie apart in what a convolution gives, and its gradient is laid out so.
  x = composer.reshaped(x, true);
  // autocast's cat takes the widest type, and the class token has 32 bits
  x = composer.cast(x, style.residual, {owner, "output, fp32", "autocast.fp32-operator"});
  const ValueId joined =
      graph.tensor({"embedding", "class tokens and patches", "op.patches.joined"},
                   sizes.tokens * sizes.hidden, style.residual, true);
  Operator join;
  join.label = "concatenate";
  join.inputs = {x};
  join.outputs = {joined};
  join.backward = {{BackwardStep::kParameterGradient,
                    composer.uncast_parameter(image.class_index, sizes.hidden), -1},
                   kAlias0};
  graph.add(join);
  const ValueId y = graph.tensor({"embedding", "sum with positions", "op.add"},
                                 sizes.tokens * sizes.hidden, style.residual, true);
  Operator add;
  add.label = "add positions";
  add.inputs = {joined};
  add.outputs = {y};
  add.backward = {
      {BackwardStep::kParameterGradient,
       composer.uncast_parameter(image.position_index, sizes.sequence * sizes.hidden), -1},
      kAlias0};
  graph.add(add);
  return composer.dropout(y, style.embedding_dropout, "embedding");
}

template <class N>
ValueId compose_class_token(Composer<N>& composer, const Architecture& model, ValueId x) {
  const Sizes<N>& sizes = composer.sizes;
  // A view of every first row; its gradient is one of the whole, of zeros elsewhere.
  const ValueId first = composer.viewed("select", x, sizes.batch * sizes.hidden);
  return composer.linear(first, model.head, sizes.batch, sizes.hidden, sizes.vocabulary);
}

template ValueId compose_patches(Composer<Checked>&, const Architecture&, ValueId);
template ValueId compose_patches(Composer<Traced>&, const Architecture&, ValueId);
template ValueId compose_class_token(Composer<Checked>&, const Architecture&, ValueId);
template ValueId compose_class_token(Composer<Traced>&, const Architecture&, ValueId);

}  // namespace steelyard
