// What is played of a model: the tapes of each of its units, drawn once for all stages.
//
//   unit         embedding, a layer of each kind (as it is, and computed again in backward), head
//   its tapes    forward; backward, whole or in two parts; what it keeps between them, what it leaves
//   at an edge   the same layer where it reads a pipeline's buffer, or a stack of layers begins
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "engine/engine.h"
#include "engine/shared_inputs.h"
#include "operators/composer.h"

namespace steelyard {

// Of one unit. Forward leaves `kept` for backward, and beside it `lingering`, which whoever holds it frees; `outliving` is
// there when backward has ended, `by_nodes` while its graph is; `named` has names in the model's forward.
template <class N>
struct UnitTapes {
  std::unique_ptr<Composer<N>> composer;  // holds the graph that the tapes are played from
  std::vector<Event> forward;
  // Backward by policy, played when first asked for.
  std::array<SplitTapes, kGradientPolicies> whole, split;
  std::vector<SlotId> kept, lingering, outliving, named, gradients, states, by_nodes;
  std::size_t model_returns = 0;  // events of the head's forward that the model's own runs
  std::size_t logits = 0;  // and those up to the logits; where there is no one tensor of them, all
  std::vector<Bytes> host_copies;
  const SplitTapes& whole_under(GradientPolicy policy) {
    SplitTapes& tapes = whole[static_cast<std::size_t>(policy)];
    if (tapes.input.empty()) tapes = composer->graph.whole_backward(policy);
    return tapes;
  }
  const SplitTapes& split_under(GradientPolicy policy) {
    SplitTapes& tapes = split[static_cast<std::size_t>(policy)];
    if (tapes.input.empty()) tapes = composer->graph.split_backward(policy);
    return tapes;
  }
  const std::vector<Event>& backward_under(GradientPolicy policy, BackwardPart part) {
    if (part == BackwardPart::kWhole) return whole_under(policy).input;
    return part == BackwardPart::kInput ? split_under(policy).input : split_under(policy).weight;
  }
  // What backward begins with: whole, or the input's.
  const SplitTapes& beginning_under(GradientPolicy policy, BackwardPart part) {
    return part == BackwardPart::kInput ? split_under(policy) : whole_under(policy);
  }
};

// What the operators of a layer, or of an end, do to memory by themselves: gradients of parameters apart, and what an
// engine adds. Height above the start.
struct Swing {
  std::int64_t net = 0, height = 0;
};
struct UnitSwings {
  Swing forward, backward, input, weight;  // the whole of backward, and its two parts
};

// What a layer has from a buffer of the pipeline: its input, the gradient of its output; and whether its input has a name
// in the model's forward, which outlasts the layer's.
// `top`: of a stack whose layers share inputs, the one whose gradients of them come first.
struct LayerEdge {
  bool input = false, gradient = false, named_input = false, top = false;
  friend bool operator==(const LayerEdge&, const LayerEdge&) = default;
};

template <class N>
struct EdgeTapes {
  int variant = 0;
  LayerEdge edge;
  UnitTapes<N> tapes;
};

// What every stage has where the vocabulary is divided over them.
template <class N>
struct DividedVocabulary {
  OperatorStyle style;
  Sizes<N> sizes;
  UnitTapes<N> lookup, output;
  SlotId rows = -1, summed = -1;  // of the tokens: this stage's, and all
  SlotId given = -1,
         input = -1;  // of the output layer: as the last stage gives it, and as it is read
  SlotId sent = -1, copied = -1;  // the same on its way
  SlotId gradient = -1;           // of that input, summed over the stages
};

// The model's own operators and what they hold: the same for jobs that differ only in data ranks, in how states are
// divided, and in the order of micro-batches.
template <class N>
struct ModelGraphs {
  explicit ModelGraphs(const Job& job)
      : style(style_of(job)), sizes(sizes_of<N>(job)), units(units_of<N>(job)) {}
  OperatorStyle style;
  Sizes<N> sizes;
  ModelUnits<N> units;
  std::unique_ptr<const ModelUnits<N>> trained_units, frozen_units;  // when something is frozen
  SlotId hidden = -1, hidden_gradient = -1, ids = -1, labels = -1;
  std::vector<SharedInput> inputs;
  std::vector<ModelBuffer> buffers;
  SlotId whole_ids = -1, whole_positions = -1, parts_of_positions = -1;
  SlotId loss = -1, loss_gradient = -1;
  SlotId received = -1, received_gradient = -1, gradient_of_received = -1;
  std::vector<UnitTapes<N>> layers;  // by variant: kind * 2 + recomputed
  std::vector<std::unique_ptr<EdgeTapes<N>>> edges;
  UnitTapes<N> embedding, head;
  // What runs through a stack of layers: of an encoder, and of a decoder. Of one stack they are the same.
  struct Stream {
    Sizes<N> sizes;
    OperatorStyle style;
    SlotId hidden = -1, hidden_gradient = -1;
  };
  std::array<Stream, 2> streams;
  // Where a decoder follows an encoder: what its layers read of the encoder's, and what layers of either share. Of the
  // pairs the second is the decoder's. Behind a tower of vision there are streams, words, features and mask; of two towers
  // `encoded` is the images' rows.
  struct Stacks {
    SlotId pixels = -1, words = -1, words_gradient = -1, features = -1;
    // enable_input_require_grads(): leaves that are not trained live as long as the graph.
    SlotId leaf_gradient = -1;
    bool words_are_leaf = false;
    // Tensors of layers that nobody reads, as autograd sees them while they run forward.
    std::vector<std::vector<ParameterTensor>> recorded;  // by kind; empty: those of the layer
    // What the second stack, or the head, reads of the first.
    SlotId encoded = -1, encoded_gradient = -1, mask = -1;
    std::array<SlotId, 2> positions{-1, -1}, positions_gradient{-1, -1};
    SlotId cross_positions = -1, cross_positions_gradient = -1;
    UnitTapes<N> bridge;
    std::size_t encoder_returns = 0;  // events of the bridge's forward that the encoder's runs
  };
  std::unique_ptr<Stacks> stacks;
  std::unique_ptr<DividedVocabulary<N>> vocabulary;
  std::vector<std::vector<SlotId>> gradients_of_kind;
  std::vector<std::vector<GradientSlots>>
      gradient_slots_of_kind;  // by tensor; both variants of a kind use the same
  // What torchtune's loop has names for (recipes/full_finetune_single_device.py, train): the tokens and the loss of a
  // micro-batch until the next one's are there, sums of a step, a column of labels that are ignored.
  struct Loop {
    bool kept = false;
    SlotId sums = -1, counted = -1, ignored = -1, scaler = -1;
    SlotId leaving = -1;  // what goes to the host stays until four more have been saved
  } loop;
};

}  // namespace steelyard
