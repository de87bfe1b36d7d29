// What stands on a stage: its chunks of layers, each with the nodes of its steps, and what all of them have in common.
#include <algorithm>

#include "engine/stage_program.h"
#include "engine/stage_scoring.h"

namespace steelyard {

template <class N>
typename StagePrograms<N>::Chunk StagePrograms<N>::chunk_at(std::int64_t rank,
                                                            std::int64_t part) const {
  const auto parts = static_cast<std::int64_t>(job_.parallel.stage_layers.size());
  Chunk chunk;
  chunk.embedding = part == 0;
  chunk.head = part == parts - 1;
  if (job_.trains_in_part()) {
    const Stage<N> stage = stage_with(rank, {part});
    chunk.input_gradient = stage.input_gradient;
    chunk.output_gradient = stage.output_gradient;
  }
  chunk.groups = groups_of(part);
  if (keeps_outputs_) chunk.kept_outputs = kept_outputs(rank);
  if (order_->placement == Placement::kV) {
    chunk.hands_on = 2 * part + 2 == parts;  // the bottom of the V
    chunk.hands_in = 2 * part == parts;
  }
  return chunk;
}

template <class N>
void StagePrograms<N>::build_nodes(const Stage<N>& stage, Chunk& chunk) {
  Program& program = book_.program;
  // Where units look at their neighbours, the first layer also looks at what else stands on its stage.
  if (engine_->uses_neighbours()) cache_.clear();
  std::vector<Event> workspaces;
  engine_->hold_backward_workspaces(workspaces);
  const NodeId of_backward = program.tape(Phase::kBackward, "workspaces", workspaces);
  std::vector<Event> left;
  engine_->left_by_first_backward(stage, left);
  const NodeId left_behind = program.tape(Phase::kBackward, "first step", left);
  const auto in_first_step = [&](const Backward& backward) {
    return program.sequence("backward",
                            {backward.before_products, of_backward, backward.rest, left_behind});
  };
  const auto whole = [&](const Backward& backward) {
    return program.sequence("backward", {backward.before_products, backward.rest});
  };
  const int later = micro_batches() > 1 ? 2 : 1;
  for (int turn = 0; turn < later; ++turn) {
    const bool first = turn == 0;
    const auto at = static_cast<std::size_t>(turn);
    chunk.forward[at] = passage_node(stage, chunk, first);
    const Backward backward = backward_node(stage, chunk, first, BackwardPart::kWhole);
    chunk.backward[at] = whole(backward);
    if (first) {
      chunk.first_step_forward = chunk.forward[at];
      chunk.first_step_backward = in_first_step(backward);
      if (keeps_outputs_ || names_received_) {
        std::vector<Event> reset;
        hold_full_buffers(stage, -1, reset);
        const NodeId at_start = program.tape(Phase::kForward, "buffers", reset);
        chunk.forward[at] = program.sequence("", {at_start, chunk.forward[at]});
      }
    }
    very_first_ = first;
    if (first && loop_.kept) chunk.first_step_forward = forward_node(stage, chunk, first);
    if (first && engine_->learns_from_first()) {
      engine_->in_very_first(true);
      cache_.clear();
      chunk.first_step_forward = passage_node(stage, chunk, first);
      chunk.first_step_backward =
          in_first_step(backward_node(stage, chunk, first, BackwardPart::kWhole));
      engine_->in_very_first(false);
      cache_.clear();
    }
    very_first_ = false;
    if (!splits_backward()) continue;
    chunk.all_waits = torch_pipeline_ && chunk.embedding;
    if (chunk.all_waits) continue;
    // A tensor that was handed over is a new one in each step, and its gradient is handed on.
    chunk.keeps_input_gradient = torch_pipeline_ && stage.input_gradient && !chunk.hands_in;
    const Backward input = backward_node(stage, chunk, first, BackwardPart::kInput);
    chunk.input_backward[at] = whole(input);
    if (first) chunk.first_step_input_backward = in_first_step(input);
    chunk.weight_backward[at] = weight_backward_node(stage, chunk, first);
  }
  if (engine_->differs_in_last()) {
    engine_->in_last(true);
    cache_.clear();
    chunk.last_backward = whole(backward_node(stage, chunk, false, BackwardPart::kWhole));
    engine_->in_last(false);
    cache_.clear();
  }
  chunk.output = output_of(stage);
  if (!torch_steps_) return;
  std::vector<Event> reduce;
  engine_->reduce(stage, reduce);
  chunk.reduce = program.tape(Phase::kBackward, "reduce", reduce);
}

template <class N>
const typename StagePrograms<N>::Parts& StagePrograms<N>::parts_of(std::int64_t index) {
  // Most stages are cut as another one that has been looked at.
  RankCut cut = cut_of(index);
  for (const auto& [known, at] : cuts_)
    if (known == cut) return parts_[at];
  const std::size_t at = find_parts(index);
  cuts_.emplace_back(std::move(cut), at);
  return parts_[at];
}

// What decides a chunk of a stage: where it lies, as far as it matters.
template <class N>
typename StagePrograms<N>::ChunkCut StagePrograms<N>::cut_of(std::int64_t rank, int chunk) const {
  const auto last = static_cast<std::int64_t>(job_.parallel.stage_layers.size()) - 1;
  const std::int64_t part = part_of(order_->placement, shape_, rank, chunk).index;
  const auto at = static_cast<std::size_t>(part);
  const bool turns =
      order_->placement == Placement::kV && (2 * part == last - 1 || 2 * part == last + 1);
  const std::int64_t place = (part == 0 ? 1 : 0) + (part == last ? 2 : 0) + (turns ? 4 : 0);
  return {(job_.parallel.stage_layers[at].value() << 3) + place,
          layers_are_alike_ ? 0 : first_layers_[at], keeps_outputs_ ? kept_outputs(rank) : 0};
}

template <class N>
typename StagePrograms<N>::RankCut StagePrograms<N>::cut_of(std::int64_t rank) const {
  RankCut cut{job_.recompute.layers, {}};
  for (int chunk = 0; chunk < static_cast<int>(shape_.chunks); ++chunk)
    cut.chunks.push_back(cut_of(rank, chunk));
  return cut;
}

template <class N>
std::int64_t StagePrograms<N>::last_alike(std::int64_t stage) const {
  const bool in_turn = order_->schedule == PipelineSchedule::kOneForwardOneBackward ||
                       order_->schedule == PipelineSchedule::kInterleaved ||
                       order_->schedule == PipelineSchedule::kGPipe;
  if (!in_turn || torch_pipeline_ || divides_vocabulary()) return stage;
  // Chunks take turns: which of them waits makes no difference where all are alike.
  const ChunkCut cut = cut_of(stage, 0);
  const auto is_cut_so = [&](std::int64_t rank) {
    for (int chunk = 0; chunk < static_cast<int>(shape_.chunks); ++chunk)
      if (cut_of(rank, chunk) != cut) return false;
    return true;
  };
  std::int64_t last = stage;
  if (!is_cut_so(stage)) return stage;
  while (last + 1 < shape_.ranks && is_cut_so(last + 1)) ++last;
  return last;
}

template <class N>
void StagePrograms<N>::left_by_backward(std::vector<SlotId> Tapes::*of, const Stage<N>& stage,
                                        std::int32_t sign, std::vector<Event>& events) {
  for (const std::int64_t part : parts_on(stage.index))
    for (const Group& group : groups_of(part))
      for (const Run& run : group.runs)
        for (SlotId slot : tapes(run.variant).*of)
          events.push_back({slot, static_cast<std::int32_t>(sign * run.count * group.times)});
  if (stage.head)
    for (SlotId slot : head_.*of) events.push_back({slot, sign});
  if (stage.embedding)
    for (SlotId slot : embedding_.*of) events.push_back({slot, sign});
}

template <class N>
std::size_t StagePrograms<N>::find_parts(std::int64_t index) {
  Parts parts;
  std::vector<Chunk> wanted;
  for (const std::int64_t part : parts_on(index)) wanted.push_back(chunk_at(index, part));
  const auto known_as = [&](const Chunk& chunk) {
    const auto known = std::find_if(chunks_.begin(), chunks_.end(),
                                    [&](const Chunk& other) { return other.is_like(chunk); });
    return static_cast<std::size_t>(known - chunks_.begin());
  };
  for (const Chunk& chunk : wanted) parts.chunks.push_back(known_as(chunk));
  for (std::size_t at = 0; at < parts_.size(); ++at)
    if (parts_[at].chunks == parts.chunks) return at;

  // An engine lays out its buffers before it looks at a unit of them.
  const Stage<N> stage = stage_of(index);
  std::vector<Event> buffers, load, states, reduce, optimizer, save;
  hold_buffers(stage, buffers);
  engine_->load_with_buffers(stage, buffers, load);
  load_scorer(load);
  engine_->states(stage, states);
  const std::vector<Event> late_states = engine_->states_behind_largest(stage, states);
  for (std::size_t chunk = 0; chunk < wanted.size(); ++chunk) {
    parts.chunks[chunk] = known_as(wanted[chunk]);
    if (parts.chunks[chunk] < chunks_.size()) continue;
    build_nodes(stage_with(index, {parts_on(index)[chunk]}), wanted[chunk]);
    chunks_.push_back(std::move(wanted[chunk]));
  }
  if (divides_vocabulary()) build_vocabulary(stage, parts);
  hold_states_of_backward(stage, states);
  Program& program = book_.program;
  std::vector<Event> forward_workspaces, backward_workspaces, left;
  engine_->hold_forward_workspaces(forward_workspaces);
  engine_->held_from_first_forward(stage, forward_workspaces);
  engine_->hold_backward_workspaces(backward_workspaces);
  engine_->left_by_first_step(stage, left);
  hold_received(stage, forward_workspaces);
  if (loop_.kept)
    for (const SlotId slot : {loop_.ignored, loop_.counted})
      forward_workspaces.push_back({slot, 1});
  parts.forward_workspaces = program.tape(Phase::kForward, "workspaces", forward_workspaces);
  parts.left = program.tape(Phase::kOptimizer, "first step", left);
  engine_->left_by_first_backward(stage, backward_workspaces);
  hold_full_buffers(stage, 1, backward_workspaces);
  const NodeId of_backward = program.tape(Phase::kBackward, "workspaces", backward_workspaces);
  std::vector<Event> of_loop;
  if (loop_.kept) of_loop = {{ids_, 1}, {loss_, 1}};
  if (scorer_job_ != nullptr && job_.training.reference == Reference::kModel) {
    // Where the first step is built as later ones are, it is there from the start.
    std::vector<Event>& of = engine_->learns_from_first() ? of_loop : load;
    append(of, root_left_whole(scorer_job_->engine, program));
  }
  // A stage without layers (nanotron splits so) loads nothing, and has its phase all the same.
  parts.load = load.empty() ? program.moment(Phase::kLoad, "load")
                            : program.tape(Phase::kLoad, "load", load);
  parts.held_later = program.sequence(
      "", {of_backward, parts.left, program.tape(Phase::kOptimizer, "first step", of_loop)});
  parts.states = program.tape(engine_->makes_states_at_load() ? Phase::kLoad : Phase::kOptimizer,
                              "states", states);
  parts.late_states = program.tape(Phase::kOptimizer, "states", late_states);
  if (!torch_steps_) engine_->reduce(stage, reduce);
  if (torch_pipeline_) end_of_torch_step(stage, reduce);
  if (divides_vocabulary()) vocabulary_ends(stage, reduce);
  if (names_received_ && !stage.head && stage.output_gradient)
    reduce.push_back({hidden_gradient_, -1});  // its names go when it returns
  if (torch_steps_) {
    std::vector<Event> begin;
    for (const std::int64_t part : parts_on(index))
      engine_->begin_step(stage_with(index, {part}), begin);
    parts.begin_step = program.tape(Phase::kForward, "step", begin);
  }
  std::vector<Event> prepared;
  if (loop_.kept && !job_.training.optimizer_in_backward)
    prepared = {{loop_.scaler, 2}, {loop_.scaler, -2}};
  engine_->prepare_step(stage, prepared);
  parts.prepared = program.tape(Phase::kOptimizer, "optimizer", prepared);
  engine_->optimizer(stage, optimizer);
  if (loop_.kept) optimizer.push_back({loop_.sums, -2});
  if (engine_->keeps_gradients())  // zero_grad
    left_by_backward(&Tapes::gradients, stage, -1, optimizer);
  engine_->checkpoint(stage, save);
  parts.reduce = program.sequence("", {program.tape(Phase::kBackward, "reduce", reduce),
                                       program.moment(Phase::kOptimizer, "optimizer")});
  parts.optimizer = program.tape(Phase::kOptimizer, "optimizer", optimizer);
  book_.launch(parts.optimizer, engine_->launches(stage).optimizer);
  parts.checkpoint = program.sequence("", {program.moment(Phase::kCheckpoint, "checkpoint"),
                                           program.tape(Phase::kCheckpoint, "checkpoint", save)});
  parts_.push_back(std::move(parts));
  return parts_.size() - 1;
}

// The workspaces of products, which here stand from the start, come with the first of them.
template <class N>
void StagePrograms<N>::before_first_forward(const Stage<N>& stage,
                                            std::vector<Event>& events) const {
  std::vector<Event> alone, workspaces;
  engine_->before_first_forward(stage, alone);
  if (alone.empty()) return;
  engine_->hold_forward_workspaces(workspaces);
  for (const Event& event : workspaces) events.push_back({event.slot, -event.count});
  events.insert(events.end(), alone.begin(), alone.end());
  events.insert(events.end(), workspaces.begin(), workspaces.end());
}

template class StagePrograms<Checked>;
template class StagePrograms<Traced>;

}  // namespace steelyard
