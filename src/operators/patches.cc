// From pixels to the residual stream, and from what the class token has become to the loss: the two ends of a tower of vision.
//
//   pixels ── cast, kept ── convolution ──┐
//                         class token ────┴─ joined ── + positions ── layers ── norm, kept whole ── its first row ── classifier
//
// Sources: transformers models/vit/modeling_vit.py (5.17). The convolution steps by its own width: a product of patches.
#include "operators/ends.h"

namespace steelyard {

namespace {

// enable_input_require_grads(): what the convolution gives is a leaf. The graph holds it, and it its gradient, a copy that nobody
// reads, until all of the graph is gone.
template <class N>
ValueId of_leaf(Graph<N>& graph, ValueId x, SlotId gradient) {
  graph.ask_gradient(x);
  graph.outlive(x);
  graph.gradient_slot(x, gradient);
  const ValueId y = graph.view(x, graph.elements(x));
  Operator view;
  view.label = "reshape";
  view.inputs = {x};
  view.outputs = {y};
  view.backward = {kGradient0};
  graph.add(view);
  return y;
}

}  // namespace

template <class N>
ValueId compose_patches(Composer<N>& composer, const ImageInput& image, const Norm* norm,
                        const Sizes<N>& sizes, ValueId pixels, SlotId leaf_gradient) {
  Graph<N>& graph = composer.graph;
  const OperatorStyle& style = composer.style;
  const char* owner = image.projection.name.c_str();
  const bool has_class = image.class_index >= 0;
  const N patches = has_class ? sizes.tokens - sizes.batch : sizes.tokens;
  if (!style.autocast && style.compute != ElementType::kFloat32)
    pixels = composer.cast(pixels, style.compute, {owner, "pixels, cast", "op.patches.cast"});
  typename Composer<N>::Factor factor;
  factor.weight_gradient =
      composer.parameter(image.projection.weight_index, N(image.projection.in) * sizes.hidden);
  factor.bias_gradient = composer.parameter(image.projection.bias_index, sizes.hidden);
  factor.biased = image.projection.bias;
  factor.keeps_weight = true;
  factor.type = style.compute;
  // PyTorch's own convolution takes one image at a time apart, and asks for a gradient that lies as its output does.
  factor.columns = graph.temporary({owner, "patches of one image", "op.patches.columns"},
                                   patches / sizes.batch * N(image.projection.in), style.compute);
  factor.apart = graph.temporary({owner, "gradient, by channel", "op.patches.columns"},
                                 patches * sizes.hidden, style.compute);
  ValueId x = composer.product(pixels, {owner, "output", "op.patches.output"}, patches,
                               N(image.projection.in), sizes.hidden, factor);
  if (leaf_gradient >= 0) x = of_leaf(graph, x, leaf_gradient);
  // autocast's cat takes the widest type, and the class token has 32 bits
  x = composer.cast(x, style.residual, {owner, "output, fp32", "autocast.fp32-operator"});
  const ValueId of_patches = x;
  if (has_class) {
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
    x = joined;
  }
  const N of_one = sizes.sequence * sizes.hidden;
  const BackwardStep of_positions{BackwardStep::kParameterGradient,
                                  composer.uncast_parameter(image.position_index, of_one), -1};
  const ValueId y = graph.tensor({"embedding", "sum with positions", "op.add"},
                                 sizes.tokens * sizes.hidden, style.residual, true);
  Operator add;
  add.label = "add positions";
  add.inputs = {x};
  add.outputs = {y};
  if (image.looks_up_positions) {
    const ValueId positions =
        graph.tensor({"positions", "output", "op.embedding.output"}, of_one, style.residual, true);
    Operator lookup;
    lookup.label = "embedding";
    lookup.outputs = {positions};
    lookup.backward = {of_positions};
    graph.add(lookup);
    add.inputs.push_back(positions);
    // Of one image nothing is summed.
    add.backward = {kAlias0, plain(sizes.batch) > 1 ? kGradient1 : kAlias1};
  } else {
    add.backward = {of_positions, kAlias0};
  }
  graph.add(add);
  if (image.looks_up_positions) graph.hold(of_patches);
  if (norm != nullptr) return composer.normalise(y, *norm, sizes.tokens, sizes.hidden);
  return composer.dropout(y, style.embedding_dropout, "embedding");
}

template <class N>
void compose_class_norm(Composer<N>& composer, const Norm& norm, const Sizes<N>& tower,
                        ElementType type, std::vector<ValueId>& locals) {
  Graph<N>& graph = composer.graph;
  const char* owner = norm.name.c_str();
  constexpr const char* kRule = "op.patches.class-norm";
  const N row = tower.batch * tower.hidden;
  const auto statistic = [&](const char* name) {
    return graph.tensor({owner, name, kRule}, tower.batch, ElementType::kFloat32, false);
  };
  const ValueId y = graph.tensor({owner, "output", kRule}, row, type, false);
  const ValueId mean = statistic("mean"), deviation = statistic("reciprocal deviation");
  Operator operation;
  operation.label = "layer norm";
  operation.outputs = {y, mean, deviation};
  operation.passing = {graph.temporary({owner, "class tokens, contiguous", kRule}, row, type)};
  graph.add(operation);
  locals = {mean, deviation, y};
}

// Classes of the mean over the patches. A norm of the class token has run before, whose output is forgotten with the model's.
template <class N>
ValueId compose_mean_of_patches(Composer<N>& composer, const Architecture& model, ValueId x,
                                std::vector<ValueId>& locals) {
  Graph<N>& graph = composer.graph;
  const Sizes<N>& sizes = composer.sizes;
  const ImageInput& image = *model.image;
  const N row = sizes.batch * sizes.hidden;
  if (image.class_norm)
    compose_class_norm(composer, *image.class_norm, sizes, graph.type(x), locals);
  ValueId patches = x;
  if (image.class_index >= 0)
    patches = composer.viewed("slice", x, (sizes.tokens - sizes.batch) * sizes.hidden);
  const ValueId mean =
      graph.tensor({"head", "mean over patches", "op.patches.mean"}, row, graph.type(x), true);
  Operator average;
  average.label = "mean";
  average.inputs = {patches};
  average.outputs = {mean};
  average.backward = {kGradient0};
  graph.add(average);
  return composer.linear(mean, model.head, sizes.batch, sizes.hidden, sizes.vocabulary);
}

template <class N>
ValueId compose_class_token(Composer<N>& composer, const Architecture& model, ValueId x) {
  const Sizes<N>& sizes = composer.sizes;
  // A view of every first row; its gradient is one of the whole, of zeros elsewhere.
  const ValueId first = composer.viewed("select", x, sizes.batch * sizes.hidden);
  return composer.linear(first, model.head, sizes.batch, sizes.hidden, sizes.vocabulary);
}

template ValueId compose_patches(Composer<Checked>&, const ImageInput&, const Norm*,
                                 const Sizes<Checked>&, ValueId, SlotId);
template ValueId compose_patches(Composer<Traced>&, const ImageInput&, const Norm*,
                                 const Sizes<Traced>&, ValueId, SlotId);
template ValueId compose_mean_of_patches(Composer<Checked>&, const Architecture&, ValueId,
                                         std::vector<ValueId>&);
template ValueId compose_mean_of_patches(Composer<Traced>&, const Architecture&, ValueId,
                                         std::vector<ValueId>&);
template void compose_class_norm(Composer<Checked>&, const Norm&, const Sizes<Checked>&,
                                 ElementType, std::vector<ValueId>&);
template ValueId compose_class_token(Composer<Checked>&, const Architecture&, ValueId);
template void compose_class_norm(Composer<Traced>&, const Norm&, const Sizes<Traced>&, ElementType,
                                 std::vector<ValueId>&);
template ValueId compose_class_token(Composer<Traced>&, const Architecture&, ValueId);

}  // namespace steelyard
