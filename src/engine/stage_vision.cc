// A tower of vision and a stack of text on one stage.
//
// A decoder that reads its patches (operators/vision_language.cc):
//   forward    words · patches · layers of the tower · bridge · layers of the decoder · head
//   backward   head · layers of the decoder · bridge · layers of the tower, where it is trained · patches · words
// The tower hands out the input of each of its layers and the last one's output; they are forgotten when the patches are
// projected, and with them the graph of layers that nobody reads.
//
// A tower of text that is compared with it (operators/contrastive.cc):
//   forward    patches · layers of the tower · rows of the images, words · layers of text · rows of the texts, loss
//   backward   the same the other way: what the loss makes for the images' rows waits until the texts are through
#include <algorithm>

#include "engine/stage_program.h"
#include "model/freeze.h"
#include "model/sequence.h"
#include "operators/ends.h"

namespace steelyard {

template <class N>
void StagePrograms<N>::draw_vision() {
  typename Graphs::Stacks& stacks = *stacks_;
  const VisionPart& vision = *job_.model->encoder_part->vision;
  typename Graphs::Stream& tower = graphs_->streams[0];
  // Of two towers each text has its image.
  if (!vision.contrast)
    tower.sizes.batch = sizes_.batch * Workbook<N>::symbol("i", job_.training.images_per_sequence);
  tower.sizes.sequence = Workbook<N>::symbol("p", vision.tokens);
  tower.sizes.tokens = tower.sizes.batch * tower.sizes.sequence;
  tower.sizes.shard_tokens = tower.sizes.tokens;
  tower.sizes.hidden = Workbook<N>::symbol("z", vision.hidden);
  // Without a class token to join them with, patches lie as the convolution gave them.
  tower.style.residual_by_channel = vision.image.class_index < 0;
  const N elements = tower.sizes.tokens * tower.sizes.hidden;
  tower.hidden = book_.slot({"residual", "hidden states of the tower", "op.residual.stream"},
                            Pile::kActivations, elements, style_.residual);
  tower.hidden_gradient =
      book_.slot({"residual", "gradient of the tower's hidden states", "autograd.input-gradient"},
                 Pile::kTemporary, elements, style_.residual);
  const ImageInput& image = vision.image;
  stacks.pixels = book_.slot({"inputs", "pixels", "inputs.pixels"}, Pile::kActivations,
                             tower.sizes.batch * N(image.channels * image.size * image.size),
                             ElementType::kFloat32);
  stacks.recorded.resize(job_.model->kinds.size());
  if (vision.contrast) {
    const N row = tower.sizes.batch * Workbook<N>::symbol("j", vision.contrast->width);
    stacks.encoded = book_.slot({"image", "rows of the images", "op.contrast.rows"},
                                Pile::kActivations, row, style_.compute);
    stacks.encoded_gradient =
        book_.slot({"image", "gradient of the rows of the images", "autograd.input-gradient"},
                   Pile::kTemporary, row, style_.compute);
    return;
  }
  const N of_words = sizes_.tokens * sizes_.hidden;
  stacks.words = book_.slot({"embedding", "words", "op.embedding.output"}, Pile::kActivations,
                            of_words, style_.residual);
  stacks.words_gradient =
      book_.slot({"embedding", "gradient of the words", "autograd.input-gradient"},
                 Pile::kTemporary, of_words, style_.residual);
}

template <class N>
const std::vector<ParameterTensor>& StagePrograms<N>::tensors_as_recorded(std::size_t kind) {
  const Layer& layer = job_.model->kinds[kind];
  if (!layer.unread) return layer.parameters;
  std::vector<ParameterTensor>& tensors = stacks_->recorded[kind];
  tensors = layer.parameters;
  for (ParameterTensor& tensor : tensors) tensor.gradient = tensor.gradient || tensor.unread;
  return tensors;
}

template <class N>
void StagePrograms<N>::compose_vision_embedding() {
  const Architecture& model = *job_.model;
  const VisionPart& vision = *model.encoder_part->vision;
  const typename Graphs::Stream& tower = graphs_->streams[0];
  Composer<N>& composer = *embedding_.composer;
  Graph<N>& graph = composer.graph;
  ValueId pixels = graph.input(
      stacks_->pixels,
      tower.sizes.batch * N(vision.image.channels * vision.image.size * vision.image.size),
      ElementType::kFloat32, false, false);
  if (!compares()) {
    const ValueId ids = graph.input(ids_, sizes_.tokens, ElementType::kInt64, false, false);
    const ValueId words = compose_embedding(composer, model, ids);
    graph.result(words, stacks_->words);
    graph.gradient_slot(words, stacks_->words_gradient);
  }
  // FSDP casts what the model is given, and its caller holds that until the model returns.
  if (style_.cuts_gradients_at_once && !style_.autocast) {
    pixels = composer.cast(pixels, style_.compute, {"inputs", "pixels, cast", "op.patches.cast"});
    graph.name(pixels);
  }
  const bool trained = composer.has_gradient(vision.image.projection.weight_index);
  if (model.embedding_output_asked && !trained)
    stacks_->leaf_gradient =
        book_.slot({"patches", "gradient that nobody reads", "op.vision.leaf"}, Pile::kTemporary,
                   tower.sizes.batch * N(vision.patches()) * tower.sizes.hidden, style_.compute);
  const ValueId x = compose_patches(composer, vision.image, vision.norm ? &*vision.norm : nullptr,
                                    tower.sizes, pixels, stacks_->leaf_gradient);
  graph.result(x, tower.hidden);
  graph.gradient_slot(x, tower.hidden_gradient);
  play(embedding_);
  embedding_.gradients.insert(embedding_.gradients.end(), stacks_->bridge.gradients.begin(),
                              stacks_->bridge.gradients.end());
}

template <class N>
ValueId StagePrograms<N>::tower_output(Graph<N>& graph, bool asks) {
  const typename Graphs::Stream& tower = graphs_->streams[0];
  const ValueId x = graph.input(tower.hidden, tower.sizes.tokens * tower.sizes.hidden,
                                style_.residual, asks, true, false);
  if (asks) graph.gradient_slot(x, tower.hidden_gradient);
  return x;
}

template <class N>
void StagePrograms<N>::compose_comparison_bridge() {
  typename Graphs::Stacks& stacks = *stacks_;
  const typename Graphs::Stream& text = graphs_->streams[1];
  Graph<N>& graph = stacks.bridge.composer->graph;
  const ValueId x = tower_output(graph, true);
  const ValueId ids = graph.input(ids_, sizes_.tokens, ElementType::kInt64, false, false);
  const ContrastBridge bridge = compose_contrast_bridge(*stacks.bridge.composer, *job_.model,
                                                        graphs_->streams[0].sizes, x, ids);
  graph.result(bridge.image, stacks.encoded);
  graph.gradient_slot(bridge.image, stacks.encoded_gradient);
  graph.result(bridge.text, text.hidden);
  graph.gradient_slot(bridge.text, text.hidden_gradient);
  play(stacks.bridge);
  stacks.encoder_returns = graph.forward_events_before(bridge.operators_of_tower);
}

template <class N>
void StagePrograms<N>::compose_patches_bridge() {
  const Architecture& model = *job_.model;
  typename Graphs::Stacks& stacks = *stacks_;
  const typename Graphs::Stream& tower = graphs_->streams[0];
  Composer<N>& composer = *stacks.bridge.composer;
  Graph<N>& graph = composer.graph;
  const std::vector<int> kinds = kind_of_each_layer(model);
  // The layer whose input is read; behind the last, whether its own output asks for a gradient.
  bool asks = false;
  for (std::int64_t layer = 0; layer < model.encoder_part->layers; ++layer) {
    const Layer& kind =
        model.kinds[static_cast<std::size_t>(kinds[static_cast<std::size_t>(layer)])];
    if (!kind.unread) asks = !steelyard::is_untouched(kind);
  }
  const ValueId x = tower_output(graph, asks);
  const bool words_ask = composer.has_gradient(0) || model.embedding_output_asked;
  stacks.words_are_leaf = words_ask && !composer.has_gradient(0);
  const ValueId words = graph.input(stacks.words, sizes_.tokens * sizes_.hidden, style_.residual,
                                    words_ask, !stacks.words_are_leaf, false);
  const VisionBridge bridge =
      steelyard::compose_vision_bridge(composer, model, tower.sizes, x, words);
  if (words_ask) graph.gradient_slot(words, stacks.words_gradient);
  stacks.features = graph.storage_slot(bridge.features);
  graph.result(bridge.merged, hidden_);
  graph.gradient_slot(bridge.merged, hidden_gradient_);
  play(stacks.bridge);
  stacks.encoder_returns = graph.forward_events_before(bridge.operators_of_tower);
}

template <class N>
void StagePrograms<N>::hidden_states_gone(std::vector<Event>& events) {
  const SlotId hidden = graphs_->streams[0].hidden;
  const std::array<std::vector<Group>, 2> stacks = stacks_of(groups_of(0));
  for (const Group& group : stacks[0])
    for (const Run& run : group.runs) {
      const auto times = static_cast<std::int32_t>(run.count * group.times);
      const bool unread = job_.model->kinds[static_cast<std::size_t>(run.variant / 2)].unread;
      const Tapes& layer = tapes(run.variant);
      const Graph<N>& graph = layer.composer->graph;
      // The input of the first that nobody reads is what the projector reads; the output of the last stands for it here.
      if (unread || !graph.is_saved(kLayerInput)) events.push_back({hidden, -times});
      if (!unread) continue;
      const std::vector<SlotId> cached = graph.lingering(true);
      for (const SlotId slot : layer.kept)
        if (std::find(cached.begin(), cached.end(), slot) == cached.end())
          events.push_back({slot, -times});
    }
}

template class StagePrograms<Checked>;
template class StagePrograms<Traced>;

}  // namespace steelyard
