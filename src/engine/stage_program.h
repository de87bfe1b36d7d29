// The whole step of one pipeline stage, as a program.
//
//   root (a later step)                                          first step
//     load        parameters, buffers                              load
//     workspaces                                                   workspaces
//     states      moments
//     step                                                         step
//       warm-up   F x w               as the order of the          ...
//       steady    (F B) x (m - w)     schedule says             a preference: F, scoring, B; completions: generation, scoring, F, B
//       drain     B x w                                            states
//       optimizer                                                  optimizer
//     checkpoint
//
// F and B are the forward and backward of one micro-batch on one chunk of layers: most stages are one chunk, and
// interleaved ones have several. The first backward of a chunk makes the gradients that later ones add to. Orders that
// split backward have two steps for B: the gradient of the input, and later those of the weights.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "engine/engine.h"
#include "engine/model_tapes.h"
#include "engine/pipeline_work.h"
#include "engine/shared_inputs.h"
#include "engine/stage_chunk.h"
#include "job/pipeline_shape.h"
#include "ledger/crest.h"
#include "operators/composer.h"

namespace steelyard {

struct StageProgram {
  NodeId root = 0;        // from nothing to the end of a steady step (checkpoint included)
  NodeId first_step = 0;  // from nothing to the end of the first step, which makes the states
  NodeId later_step = 0;  // each step after it, with its checkpoint; ends as it began
  NodeId before_first_step = 0;  // its part before the first micro-batch
  std::int64_t in_flight = 1;
};

template <class N>
class StagePrograms {
 public:
  // `both`: layers as they are where they are computed again, and where they are not, whatever the job asks.
  explicit StagePrograms(const Job& job, SlotDetail detail = SlotDetail::kSums, bool both = false);
  // The graphs alone, of every kind of layer, recomputed and not: no stage can be built. The job outlives this.
  static std::shared_ptr<StagePrograms> drawn(const Job& job);
  // `job` differs from the one of `drawn` in nothing that its graphs hold.
  StagePrograms(const Job& job, const std::shared_ptr<StagePrograms>& drawn);
  ~StagePrograms();

  // The job has changed in its micro-batches (one stays one, several stay several), in the order of its stages and how they
  // are cut, or in what is computed again: what engine and graphs were made of has not.
  void cut_stages();
  StageProgram build(std::int64_t stage);
  // Of a steady step, from nothing on: what build() would tell of its root, and no more.
  Crest crest(std::int64_t stage);
  // The last of the stages from this one on that differ only in how many micro-batches wait before their first backward:
  // fewer on each. Where both ends have their peak in one phase, those between them lie between them.
  std::int64_t last_alike(std::int64_t stage) const;
  Workbook<N>& book() { return book_; }
  const Program& program() const { return book_.program; }
  const ModelUnits<N>& units() const { return units_; }
  // What of them has gradients: all, where nothing is frozen.
  const ModelUnits<N>& trained_units() const { return trained_units_ ? *trained_units_ : units_; }
  const Sizes<N>& sizes() const { return sizes_; }
  Stage<N> stage_of(std::int64_t index) const;
  // As another job has it that differs in which whole layers are computed again: none or all of them.
  PipelineWork work(const Recompute& recompute);
  EngineModel<N>& engine() { return *engine_; }
  // Beside the device: what the engine keeps there, and activations that wait.
  HostMemory host(std::int64_t stage);
  // What one layer of `kind` keeps for backward of one micro-batch (slots of the workbook).
  const std::vector<SlotId>& kept_of_kind(std::size_t kind, bool recomputed) const;
  const std::vector<SlotId>& kept_of_head() const { return head_.kept; }
  bool recomputes(std::int64_t layer_in_stage, std::int64_t layer) const;
  // `borrows`: what a layer has from buffers of the pipeline, its input and the gradient of its output.
  UnitSwings swings_of_kind(std::size_t kind, bool recomputed, bool borrows_input,
                            bool borrows_gradient);
  UnitSwings swings_of_embedding() { return swings_of(embedding_); }
  UnitSwings swings_of_head() { return swings_of(head_); }
  Bytes hidden_bytes() const { return book_.program.slot_at(hidden_).bytes; }
  // Buffers of the model that are no parameters.
  void hold_buffers(const Stage<N>& stage, std::vector<Event>& events) const;
  // Where torch's pipelines receive: a buffer for each micro-batch and direction.
  // scaling: outputs and batches of the step before; the next one begins by letting them go.
  void hold_full_buffers(const Stage<N>& stage, std::int32_t times,
                         std::vector<Event>& events) const;
  void hold_received(const Stage<N>& stage, std::vector<Event>& events) const;
  // Where hooks step each tensor in backward: what the first one makes of the optimizer.
  void hold_states_of_backward(const Stage<N>& stage, std::vector<Event>& events) {
    if (engine_->makes_states_in_backward()) left_by_backward(&Tapes::states, stage, 1, events);
  }
  // What the first step leaves on them where backward is split.
  void hold_gradients_of_received(std::int64_t rank, std::vector<Event>& events) const {
    hold_gradients_of_received(rank, order_->rank_order(shape_, rank), events);
  }

 private:
  using Tapes = UnitTapes<N>;
  using Graphs = ModelGraphs<N>;
  using Vocabulary = DividedVocabulary<N>;
  using Edge = LayerEdge;
  using Run = VariantRun;
  using Group = VariantGroup;
  using Chunk = StageChunk;
  using Parts = StageParts;
  static constexpr ValueId kLayerInput = 0;

  std::int32_t leaving_of(const std::vector<Group>& groups) const;
  bool very_first_ = false;  // micro-batch of the run

  void hold_gradients_of_received(std::int64_t rank, const RankOrder& order,
                                  std::vector<Event>& events) const;
  // All tensors of one sort that backward leaves on this stage.
  void left_by_backward(std::vector<SlotId> Tapes::*of, const Stage<N>& stage, std::int32_t sign,
                        std::vector<Event>& events);
  // --- a CUDA graph of the whole iteration (engine/stage_graphs.cc)
  SlotId graph_pool(std::int64_t bytes);
  N graph_input_words() const;
  SlotId graph_inputs();
  std::int64_t graph_input_bytes() const;
  // --- an encoder and a decoder (engine/stage_stacks.cc)
  // Whether layers run again in backward, whose checkpoints keep what they were given.
  bool checkpoints_stacks() const { return job_.recompute.mode == RecomputeMode::kFull; }
  bool decodes(std::size_t kind) const { return !job_.model->kinds[kind].encodes; }
  bool looks_up_positions(std::size_t kind) const;
  bool shares_positions(bool decoder) const;  // a stack of more than one layer
  void draw_stacks();
  void compose_bridge();
  // --- a tower of vision and a decoder (engine/stage_vision.cc)
  void draw_vision();
  void compose_vision_embedding();
  void compose_patches_bridge();
  void compose_comparison_bridge();
  ValueId tower_output(Graph<N>& graph, bool asks);
  // The tower hands out what each of its layers was given, and what the last gave.
  void hidden_states_gone(std::vector<Event>& events);
  const std::vector<ParameterTensor>& tensors_as_recorded(std::size_t kind);
  bool sees() const { return follows_vision(*job_.model); }
  bool compares() const { return contrasts(*job_.model); }
  // The labels of two towers are which image and text belong together: nobody hands them over.
  bool reads_labels(const Stage<N>& stage) const {
    return stage.head && !compares() && !divides_vocabulary() && !scores();
  }
  // What layers of a stack have from others, and what its first one makes for them.
  void give_shared(Composer<N>& composer, std::size_t kind, bool top);
  void take_shared(Composer<N>& composer, std::size_t kind, bool top);
  std::array<std::vector<Group>, 2> stacks_of(const std::vector<Group>& groups) const;
  NodeId bridge_node(bool forward, bool first);
  const char* bridge_label() const;
  // What the first stack's forward had names for.
  void encoder_returns(std::vector<Event>& events);
  // Whether layers keep what the encoder gave: under autocast products keep copies of it, and only a name holds it.
  bool keeps_encoded() const { return !style_.autocast || checkpoints_stacks(); }
  void decoder_returns(std::vector<Event>& events) const;
  void model_returns(std::vector<Event>& events) const;
  void stacks_end(std::vector<Event>& events) const;
  // What the first layer of a stack is the last to need, goes when the others have run backward.
  void positions_gone(std::size_t kind, std::vector<Event>& events) const;

  // --- a model that scores beside the trained one (engine/stage_scoring.cc)
  // `drawn`: its graphs, where they stand in the workbook already.
  void draw_scorer(const StagePrograms* drawn);
  void forget_nodes() {
    cache_.clear();
    chunks_.clear();
    parts_.clear();
    cuts_.clear();
  }
  bool scores() const { return is_scorer_; }
  Phase passage() const { return scores() ? Phase::kScoring : Phase::kForward; }
  // A forward of the model that scores, behind which nothing of it is left; the empty node where nothing does.
  NodeId scoring_node();
  void hand_out_logits(std::vector<Event>& events);
  // Forward with what scores: beside it, or, of what is generated first, before the first of a step.
  NodeId passage_node(const Stage<N>& stage, const Chunk& chunk, bool first);
  void load_scorer(std::vector<Event>& events);
  // Where its weights are divided, and gathered all at once: what comes before its forward (1), and goes behind it (-1).
  void gather_scorer(std::int32_t sign, std::vector<Event>& events);

  // --- a vocabulary divided over the stages (engine/stage_vocabulary.cc)
  bool divides_vocabulary() const { return steelyard::divides_vocabulary(job_); }
  // Whether the runtime of zero bubbles runs it, or loops written out for it.
  bool v_half() const { return order_->schedule == PipelineSchedule::kVHalf; }
  void compose_vocabulary();
  void vocabulary_forward(const Stage<N>& stage, bool first, std::vector<Event>& lookup,
                          std::vector<Event>& output);
  void vocabulary_backward(const Stage<N>& stage, bool first, std::vector<Event>& lookup,
                           std::vector<Event>& output);
  void vocabulary_ends(const Stage<N>& stage, std::vector<Event>& events) const;
  void build_vocabulary(const Stage<N>& stage, Parts& parts);

  // Of what the embedding reads: token ids, or pixels.
  N input_elements() const;
  // Which parts of a layer that is not computed again as a whole are.
  typename Composer<N>::Recomputed recomputed_parts(const Layer& layer) const;
  void compose_layer(Tapes& tapes, std::size_t kind, bool recomputed, Edge edge);
  // Whether the stage is given the micro-batch's tokens.
  bool reads_ids(const Stage<N>& stage) const {
    if (divides_vocabulary()) return false;  // its lookups do
    if (scores()) return false;              // the policy's are there
    return stage.embedding || (stage.head && !job_.model->predictions.empty());
  }
  void compose_ends();
  std::vector<Group> groups_of(std::int64_t part) const;
  Tapes& tapes(int variant) { return layers_[static_cast<std::size_t>(variant)]; }
  Tapes& tapes(int variant, Edge edge);
  bool is_untouched(int variant) const;
  // Whether the hidden states before this layer need a gradient; beyond the last layer: before the head.
  bool gradient_before(std::int64_t layer) const;
  struct Reach {
    bool leaves_device = true;  // where activations wait on the host, these do
    bool unread = false;        // backward never comes here
  };
  static void play(Tapes& tapes, const Reach& how);
  static void play(Tapes& tapes) { play(tapes, Reach{}); }
  // torchtune's way of sending activations to the host: what has come back stays until something else has.
  bool returns_late() const { return loop_.kept && style_.offloads_saved; }
  UnitSwings swings_of(Tapes& tapes) const;
  // What a tape of forward or backward launches, where somebody will ask how far a host is ahead.
  void note_launches(NodeId tape, const Tapes& of, bool forward, bool first);
  // Where context parallelism cuts inputs in place, those of the whole sequences.
  void hold_whole_inputs(const Stage<N>& stage, std::int32_t count,
                         std::vector<Event>& events) const;
  // The run of layers whose backward is the last to need `input`; none: nothing on this stage keeps it.
  struct Position {
    std::size_t group = 0, run = 0;
    friend bool operator==(const Position&, const Position&) = default;
  };
  static std::optional<Position> lowest_reader(const SharedInput& input,
                                               const std::vector<Group>& groups);
  // What goes in backward right after the lowest round of that run, where layers below it still come.
  NodeId inputs_gone_after(const std::vector<Group>& groups, Position position);
  // What runs backward, the engine's part in the midst of it where the first gradients of parameters stand.
  std::vector<Event> backward_events(Tapes& tapes, BackwardPart part, bool first,
                                     bool first_gradients);
  NodeId layer_node(int variant, const Neighbours& here, Edge edge, bool forward, bool first,
                    BackwardPart part);
  // `gradients_before`: backward has made gradients of parameters when it comes to the layers. `edge`: of the first
  // and the last of them. `beyond`: kinds of layers that run before and after all of these.
  struct Beyond {
    int previous = -1, next = -1;
  };
  NodeId layers_node(const std::vector<Group>& groups, Edge edge, bool forward, bool first,
                     bool gradients_before, BackwardPart part = BackwardPart::kWhole,
                     Beyond beyond = {-1, -1});
  NodeId forward_node(const Stage<N>& stage, const Chunk& chunk, bool first);
  void before_first_forward(const Stage<N>& stage, std::vector<Event>& events) const;
  // Backward, in two parts: until its first matrix product asks for a workspace, and the rest.
  struct Backward {
    NodeId before_products = 0, rest = 0;
  };
  Backward backward_node(const Stage<N>& stage, const Chunk& chunk, bool first, BackwardPart part);
  NodeId weight_backward_node(const Stage<N>& stage, const Chunk& chunk, bool first);
  // Whether this part of backward is the last to need what the model's forward has made for all of its layers.
  bool lets_inputs_go(BackwardPart part) const {
    return part == BackwardPart::kWhole ||
           part == (torch_pipeline_ ? BackwardPart::kWeight : BackwardPart::kInput);
  }
  // The chunk of layers that is `part` of the model.
  Chunk chunk_at(std::int64_t rank, std::int64_t part) const;
  void build_nodes(const Stage<N>& stage, Chunk& chunk);
  const Parts& parts_of(std::int64_t rank);
  struct ChunkCut {
    std::int64_t layers_and_place = 0, first_layer = 0, kept_outputs = 0;
    friend bool operator==(const ChunkCut&, const ChunkCut&) = default;
  };
  struct RankCut {
    std::int64_t recomputed = 0;
    std::vector<ChunkCut> chunks;
    friend bool operator==(const RankCut&, const RankCut&) = default;
  };
  ChunkCut cut_of(std::int64_t rank, int chunk) const;
  RankCut cut_of(std::int64_t rank) const;
  std::size_t find_parts(std::int64_t rank);  // of parts_
  // What stands on a stage: one chunk, or all of its chunks together.
  Stage<N> stage_with(std::int64_t rank, const std::vector<std::int64_t>& parts) const;
  std::vector<std::int64_t> parts_on(std::int64_t rank) const;
  // `Line`: of nodes, or of crests alone (ledger/crest.h).
  template <class Line>
  typename Line::Part micro_batches(Line& line, std::int64_t rank, const Parts& parts,
                                    const RankOrder& order, bool first_step);
  template <class Line>
  typename Line::Part torch_micro_batches(Line& line, const Chunk& chunk, NodeId first_backward,
                                          std::int64_t in_flight);
  template <class Line>
  typename Line::Part stepped(Line& line, typename Line::Part passes, const Parts& parts);
  template <class Line>
  struct LaterStep {
    typename Line::Part root{}, start{}, later_step{};  // as StageProgram has them
  };
  template <class Line>
  LaterStep<Line> later_step(Line& line, std::int64_t rank, const Parts& parts,
                             const RankOrder& order);
  // What the stage gives; -1: nothing that anybody keeps.
  SlotId output_of(const Stage<N>& stage) const;
  bool lets_output_go_in_forward(const Stage<N>& stage) const;
  // Whether the embedding's output stays until the model's forward returns, for its name alone.
  bool holds_embedding_output(const Stage<N>& stage, const std::vector<Group>& groups);
  // The first and last layer of a stage read what torch's pipelines have received.
  Edge edge_of(const Stage<N>& stage, const std::vector<Group>& groups) const;
  SlotId whole_batch();
  // Outputs of a stage that scaling's buffers hold until the next step begins: as many as micro-batches are under way, and one.
  std::int64_t kept_outputs(std::int64_t rank) const;
  bool reads_batch(const Stage<N>& stage) const { return stage.embedding || stage.head; }
  // The model returns logits, and whoever trains it calls the loss on them.
  bool calls_loss() const {
    return torch_pipeline_ || job_.implementation == Implementation::kTorchtitan;
  }
  // The names of a micro-batch's inputs go with Megatron's forward_step; token ids stay where the embedding looks them up itself,
  // and does not mask them for its part of the vocabulary first.
  bool labels_go_in_forward() const { return job_.engine == Engine::kMegatron; }
  bool ids_go_in_forward(const Stage<N>& stage) const {
    return labels_go_in_forward() && (!stage.embedding || job_.parallel.tensor > 1);
  }
  // What a step of Megatron's 1F1B leaves on a stage: what it received last (set_input_tensor), and that one's gradient.
  void hold_last_received(const Stage<N>& stage, std::int32_t times,
                          std::vector<Event>& events) const;
  void take_from_buffers(const Stage<N>& stage, bool first, std::vector<Event>& events) const;
  void end_of_torch_step(const Stage<N>& stage, std::vector<Event>& events) const;
  // Micro-batches that each chunk sees.
  std::int64_t micro_batches() const { return micro_batches_of_chunk(order_->placement, shape_); }
  bool splits_backward() const { return order_->splits_backward && job_.parallel.pipeline > 1; }

  const Job& job_;
  const PipelineOrder* order_ = nullptr;
  PipelineShape shape_;
  std::unique_ptr<Workbook<N>> own_book_;
  Workbook<N>& book_;
  StagePrograms(const Job& job, SlotDetail detail, std::shared_ptr<Graphs> graphs);
  StagePrograms(const Job& job, std::unique_ptr<Workbook<N>> own, std::shared_ptr<Graphs> graphs);
  StagePrograms(const Job& job, Workbook<N>& book, std::shared_ptr<Graphs> graphs);
  const typename Graphs::Stream& stream_of(std::size_t kind) const {
    return graphs_->streams[decodes(kind) ? 1 : 0];
  }
  void draw(bool with_all);
  void make_engine();

  std::shared_ptr<const StagePrograms> drawn_;  // whose graphs these are; null: its own
  std::shared_ptr<Graphs> graphs_;
  OperatorStyle& style_;
  Sizes<N>& sizes_;
  ModelUnits<N>& units_;
  std::unique_ptr<const ModelUnits<N>>&trained_units_, &frozen_units_;
  SlotId &hidden_, &hidden_gradient_, &ids_, &labels_;
  std::vector<SharedInput>& inputs_;
  std::vector<ModelBuffer>& buffers_;
  SlotId &whole_ids_, &whole_positions_, &parts_of_positions_;
  SlotId &loss_, &loss_gradient_;
  typename Graphs::Loop& loop_;
  SlotId &received_, &received_gradient_, &gradient_of_received_;
  std::vector<Tapes>& layers_;
  std::vector<std::unique_ptr<EdgeTapes<N>>>& edges_;
  Tapes &embedding_, &head_;
  std::unique_ptr<typename Graphs::Stacks>& stacks_;
  std::vector<std::vector<SlotId>>& gradients_of_kind_;
  std::vector<std::vector<GradientSlots>>& gradient_slots_of_kind_;
  bool torch_pipeline_ = false;
  bool keeps_outputs_ = false;  // scaling's pipe_parallel buffers
  // Megatron's 1F1B without interleaving has names for what it receives and sends.
  bool names_received_ = false;
  // runs_torch_steps() of the job.
  bool torch_steps_ = false;
  std::unique_ptr<EngineContext<N>> context_;
  std::unique_ptr<EngineModel<N>> engine_;
  // The job of the model that scores, and what of it is drawn in this workbook; null: nothing scores.
  std::shared_ptr<const Job> scorer_job_;
  std::unique_ptr<StagePrograms> scorer_;
  // Who holds its weights between two forwards, where that is not the engine of these: a share of each, gathered at once.
  std::unique_ptr<EngineContext<N>> holding_context_;
  std::unique_ptr<EngineModel<N>> holding_;
  std::shared_ptr<const Job> holding_job_;
  SlotId gathered_at_once_ = -1, entropy_copy_ = -1, entropy_part_ = -1;
  void entropies(std::vector<Event>& events);
  bool is_scorer_ = false;
  struct CachedNode {
    int variant, previous, next;
    bool first_gradients, forward, first;
    Edge edge;
    BackwardPart part;
    NodeId node;
  };
  // What nodes hold of a job that cut_stages() may change, beside the chunks themselves. Of others, nodes are made anew.
  struct Common {
    RecomputeMode recompute{};
    std::int64_t every = 1;
    bool whole_stages = false, names_received = false, splits_backward = false, several = false;
    PipelineSchedule schedule{};
    std::int64_t micro_batches = 0, chunks = 1;
    friend bool operator==(const Common&, const Common&) = default;
  };
  static constexpr std::size_t kMostNodes = 20'000;
  std::optional<Common> common_;
  std::vector<CachedNode> cache_;
  std::vector<Chunk> chunks_;
  std::vector<Parts> parts_;
  std::vector<std::pair<RankCut, std::size_t>> cuts_;
  std::vector<std::int64_t> first_layers_;  // of each part of the model, and where it ends
  bool layers_are_alike_ = false;           // wherever a part begins
  CrestLine crests_{book_.program};
};

extern template class StagePrograms<Checked>;
extern template class StagePrograms<Traced>;

}  // namespace steelyard
