// The whole step of one pipeline stage, as a program.
//
//   root (a later step)                                          first step
//     load        parameters, buffers                              load
//     workspaces                                                   workspaces
//     states      moments
//     step                                                         step
//       warm-up   F x w      1F1B: w = min(m, p - r) - 1             ...
//       steady    (F B) x (m - w)    GPipe: all
//       drain     B x w                                              states
//       optimizer                                                    optimizer
//     checkpoint
//
// F and B are the forward and backward of one micro-batch on this stage; the first backward makes the gradients that
// later ones add to.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "engine/engine.h"
#include "operators/composer.h"

namespace steelyard {

struct StageProgram {
  NodeId root = 0;        // from nothing to the end of a steady step (checkpoint included)
  NodeId first_step = 0;  // from nothing to the end of the first step, which makes the states
  NodeId later_step = 0;  // each step after it, with its checkpoint; ends as it began
  NodeId before_first_step = 0;  // its part before the first micro-batch
  std::int64_t in_flight = 1;
  // Temporaries of the optimizer step that are larger than any tensor of forward and backward: no cached block holds
  // them, so the allocator reserves them in addition.
  Bytes beyond_cached_blocks{};
};

// What the kernels of a stage do in one micro-batch: equal parts once, with how often they stand there.
struct StageWork {
  struct Part {
    const char* label = "";  // "embedding", "layer", "head"
    int unit = 0;            // in the order of SlotSet
    std::int64_t times = 1;
    Kernels forward, backward;
  };
  std::vector<Part> parts;
};

// Micro-batches whose activations a stage holds at once (torch/distributed/pipelining/schedules.py; Megatron-LM
// core/pipeline_parallel).
std::int64_t micro_batches_in_flight(const Job& job, std::int64_t stage);

template <class N>
class StagePrograms {
 public:
  explicit StagePrograms(const Job& job);
  ~StagePrograms();

  StageProgram build(std::int64_t stage);
  Workbook<N>& book() { return book_; }
  const Program& program() const { return book_.program; }
  const ModelUnits<N>& units() const { return units_; }
  const Sizes<N>& sizes() const { return sizes_; }
  Stage<N> stage_of(std::int64_t index) const;
  StageWork work(std::int64_t stage);
  EngineModel<N>& engine() { return *engine_; }
  // What one layer of `kind` keeps for backward of one micro-batch (slots of the workbook).
  const std::vector<SlotId>& kept_of_kind(std::size_t kind, bool recomputed) const;
  const std::vector<SlotId>& kept_of_head() const { return head_.kept; }
  bool recomputes(std::int64_t layer_in_stage, std::int64_t layer) const;
  // Buffers of the model that are no parameters: rotary frequencies, and their first values beside them.
  void hold_buffers(std::vector<Event>& events) const;
  // Where torch's pipelines receive: a buffer for each micro-batch and direction.
  void hold_received(const Stage<N>& stage, std::vector<Event>& events) const;

 private:
  struct Tapes {
    std::unique_ptr<Composer<N>> composer;  // holds the graph that the tapes are played from
    std::vector<Event> forward;
    std::array<std::vector<Event>, 3> backward;  // by policy, played when first asked for
    std::array<std::size_t, 3> before_products{};
    std::vector<SlotId> kept, lingering, outliving, gradients;
    const std::vector<Event>& backward_under(GradientPolicy policy) {
      std::vector<Event>& events = backward[static_cast<std::size_t>(policy)];
      if (events.empty())
        events =
            composer->graph.backward(policy, &before_products[static_cast<std::size_t>(policy)]);
      return events;
    }
  };
  struct Variant {
    int kind = 0;
    bool recomputed = false;
  };
  struct Run {
    int variant = 0;
    std::int64_t count = 1;
    friend bool operator==(const Run&, const Run&) = default;
  };
  // What a layer has from a buffer of the pipeline: its input, the gradient of its output.
  struct Edge {
    bool input = false, gradient = false;
    friend bool operator==(const Edge&, const Edge&) = default;
  };
  struct EdgeTapes {
    int variant = 0;
    Edge edge;
    Tapes tapes;
  };
  struct Group {
    std::vector<Run> runs;
    std::int64_t times = 1;
    friend bool operator==(const Group&, const Group&) = default;
  };
  // Stages with the same layers and ends have the same parts; only the order of micro-batches differs.
  struct Parts {
    bool embedding = false, head = false, input_gradient = true, output_gradient = true;
    std::vector<Group> groups;
    Bytes beyond_cached_blocks{};
    NodeId load = 0, states = 0, forward_workspaces = 0, held_later = 0, left = 0,
           first_step_backward = 0, first_forward = 0, first_backward = 0, forward = 0,
           backward = 0, reduce = 0, optimizer = 0, checkpoint = 0;
    SlotId output = -1;
  };

  void compose_layer(Tapes& tapes, std::size_t kind, bool recomputed, Edge edge);
  void compose_ends();
  std::vector<Group> groups_of(std::int64_t stage) const;
  Tapes& tapes(int variant) { return layers_[static_cast<std::size_t>(variant)]; }
  Tapes& tapes(int variant, Edge edge);
  bool is_untouched(int variant) const;
  // Whether the hidden states before this layer need a gradient; beyond the last layer: before the head.
  bool gradient_before(std::int64_t layer) const;
  static void play(Tapes& tapes);
  bool recomputes_layers() const;
  bool keeps_position_ids() const { return recomputes_layers() || job_.model->learned_positions; }
  // cos and sin, of each table
  std::int32_t rotary_copies() const {
    return static_cast<std::int32_t>(2 * job_.model->rotary_tables);
  }
  NodeId layer_node(int variant, const Neighbours& here, Edge edge, bool forward, bool first);
  // `gradients_before`: backward has made gradients of parameters when it comes to the layers. `edge`: of the first
  // and the last of them.
  NodeId layers_node(const std::vector<Group>& groups, Edge edge, bool forward, bool first,
                     bool gradients_before);
  NodeId forward_node(const Stage<N>& stage, const std::vector<Group>& groups, bool first);
  // Backward, in two parts: up to its first matrix product, and the rest.
  struct Backward {
    NodeId before_products = 0, rest = 0, whole = 0;
  };
  Backward backward_node(const Stage<N>& stage, const std::vector<Group>& all_groups, bool first);
  const Parts& parts_of(std::int64_t stage);
  Stage<N> stage_with(std::int64_t index, const std::vector<Group>& groups) const;
  NodeId micro_batches_node(const Parts& parts, NodeId first_backward, std::int64_t in_flight);
  NodeId torch_micro_batches_node(const Parts& parts, NodeId first_backward,
                                  std::int64_t in_flight);
  // What the stage gives; -1: nothing that anybody keeps.
  SlotId output_of(const Stage<N>& stage) const;
  bool lets_output_go_in_forward(const Stage<N>& stage) const;
  // The first and last layer of a stage read what torch's pipelines have received.
  Edge edge_of(const Stage<N>& stage, const std::vector<Group>& groups) const;
  void end_of_torch_step(const Stage<N>& stage, std::vector<Event>& events) const;

  const Job& job_;
  Workbook<N> book_;
  OperatorStyle style_;
  Sizes<N> sizes_;
  ModelUnits<N> units_;
  std::unique_ptr<const ModelUnits<N>> trained_units_, frozen_units_;  // when something is frozen
  SlotId hidden_ = -1, hidden_gradient_ = -1, ids_ = -1, labels_ = -1, rotary_table_ = -1;
  SlotId embedding_scale_ = -1, position_ids_ = -1, mask_ = -1, rotary_frequencies_ = -1;
  std::int64_t masks_ = 0;
  SlotId loss_ = -1, loss_gradient_ = -1;
  bool torch_pipeline_ = false;
  SlotId received_ = -1, received_gradient_ = -1;
  std::vector<Tapes> layers_;  // by variant: kind * 2 + recomputed
  std::vector<std::unique_ptr<EdgeTapes>> edges_;
  Tapes embedding_, head_;
  std::vector<std::vector<SlotId>> gradients_of_kind_;
  std::vector<std::vector<GradientSlots>>
      gradient_slots_of_kind_;  // by tensor; both variants of a kind use the same
  std::unique_ptr<EngineContext<N>> context_;
  std::unique_ptr<EngineModel<N>> engine_;
  struct CachedNode {
    int variant, previous, next;
    bool first_gradients, forward, first;
    Edge edge;
    NodeId node;
  };
  std::vector<CachedNode> cache_;
  std::vector<Parts> parts_;
};

extern template class StagePrograms<Checked>;
extern template class StagePrograms<Traced>;

}  // namespace steelyard
