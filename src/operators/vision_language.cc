// Between a tower of vision and a decoder: a layer's output, projected, takes the places of the image tokens among the words.
//
//   x ── without class tokens ── linear ── activation ── linear ── joined, kept by name ──┐
//   words ───────────────────────────────────────────────────────────────────────── masked_scatter ── y
//   token ids ── == image token ── mask, kept ──────────────────────────────────────────────┘
//
// Sources: transformers models/llava/modeling_llava.py, LlavaModel.forward and get_image_features (5.17).
#include "operators/ends.h"

namespace steelyard {

template <class N>
VisionBridge compose_vision_bridge(Composer<N>& composer, const Architecture& model,
                                   const Sizes<N>& tower, ValueId x, ValueId words) {
  Graph<N>& graph = composer.graph;
  const OperatorStyle& style = composer.style;
  const Sizes<N>& sizes = composer.sizes;
  const VisionPart& vision = *model.encoder_part->vision;
  VisionBridge bridge;
  std::vector<ValueId> locals;
  if (vision.image.class_norm)
    compose_class_norm(composer, *vision.image.class_norm, tower, graph.type(x), locals);
  const N rows = tower.batch * Workbook<N>::symbol("q", vision.features);
  ValueId chosen = x;
  if (vision.features < vision.tokens) {
    chosen = composer.viewed("slice", x, rows * tower.hidden);
    // Rows of several images lie apart then, and a product asks for one piece.
    if (plain(tower.batch) > 1 && !style.autocast)
      chosen =
          composer.laid_out(chosen, {"projector", "patches, contiguous", "op.vision.contiguous"});
  }
  ValueId y = composer.linear(chosen, vision.projection_in, rows, tower.hidden, sizes.hidden);
  y = composer.activate(y, vision.activation, "projector");
  y = composer.linear(y, vision.projection_out, rows, sizes.hidden, sizes.hidden);
  for (const ValueId local : locals) graph.hold(local);
  graph.hold(x);
  bridge.operators_of_tower = composer.position();
  y = composer.copy(y, {"projector", "features of all images", "op.vision.joined"});
  y = composer.cast(y, style.residual,
                    {"projector", "features, in the words' type", "op.vision.joined"});
  graph.name(y);
  bridge.features = y;
  const ValueId mask =
      composer.made("mask", {}, {"inputs", "places of images", "inputs.image-mask"}, sizes.tokens,
                    ElementType::kBool);
  graph.name(mask);

  const N elements = sizes.tokens * sizes.hidden;
  constexpr const char* kRule = "op.masked-scatter";
  const auto temporary = [&](const char* name, const N& count, ElementType type) {
    return graph.temporary({"masked scatter", name, kRule}, count, type);
  };
  bridge.merged = graph.tensor({"embedding", "words and patches", "op.masked-scatter.output"},
                               elements, style.residual, true);
  Operator scatter;
  scatter.label = "masked scatter";
  scatter.inputs = {words, y};
  scatter.outputs = {bridge.merged};
  scatter.saved = {mask};
  scatter.passing = {temporary("places, counted", elements, ElementType::kInt64),
                     temporary("mask of all elements", elements, ElementType::kBool)};
  const N chosen_elements = rows * sizes.hidden;
  scatter.backward = {
      kGradient0,
      {BackwardStep::kTemporary, 0,
       temporary("mask of all elements", elements, ElementType::kBool)},
      {BackwardStep::kTemporary, 0,
       temporary("places of what was put in", N(3) * chosen_elements, ElementType::kInt64)},
      kGradient1};
  graph.add(scatter);
  return bridge;
}

template VisionBridge compose_vision_bridge(Composer<Checked>&, const Architecture&,
                                            const Sizes<Checked>&, ValueId, ValueId);
template VisionBridge compose_vision_bridge(Composer<Traced>&, const Architecture&,
                                            const Sizes<Traced>&, ValueId, ValueId);

}  // namespace steelyard
