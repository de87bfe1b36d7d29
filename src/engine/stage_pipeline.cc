// The micro-batches of one stage in their order, and what torch.distributed.pipelining keeps around them.
//
//   for ever         a buffer for each micro-batch and direction in which the stage receives
//   for a step       token ids and labels of all micro-batches, their losses
//   until backward   what the stage has given, and the last of it to the end of the step (a local of the schedule)
//   until the next   the gradient that the stage sends
//
// Megatron's 1F1B has names for the gradient that it has received and for the one that it has sent, each until the next.
//
// Sources: torch/distributed/pipelining/{stage,schedules}.py; megatron/core/pipeline_parallel/schedules.py,
// forward_backward_pipelining_without_interleaving (0.16).
#include <algorithm>
#include <utility>

#include "engine/stage_program.h"

namespace steelyard {

template <class N>
void StagePrograms<N>::hold_received(const Stage<N>& stage, std::vector<Event>& events) const {
  if (!torch_pipeline_) return;
  const auto last = static_cast<std::int64_t>(job_.parallel.stage_layers.size()) - 1;
  const auto each = static_cast<std::int32_t>(micro_batches());
  for (const std::int64_t part : parts_on(stage.index)) {
    if (part != 0) events.push_back({received_, each});
    if (part != last) events.push_back({received_gradient_, each});
  }
}

// torch/distributed/pipelining/_backward.py, stage_backward_input: the gradient is put on the tensor; clear_runtime_states
// takes it off when the next step begins.
template <class N>
void StagePrograms<N>::hold_gradients_of_received(std::int64_t rank, const RankOrder& order,
                                                  std::vector<Event>& events) const {
  if (!torch_steps_ || !splits_backward()) return;
  const std::vector<std::int64_t> parts = parts_on(rank);
  const auto turn = static_cast<std::int64_t>(job_.parallel.stage_layers.size()) / 2;
  // By chunk: whether a gradient is left where its input was received.
  std::vector<bool> leaves;
  for (const std::int64_t part : parts)
    leaves.push_back(part != 0 && !(order_->placement == Placement::kV && part == turn) &&
                     (!job_.trains_in_part() || stage_with(rank, {part}).input_gradient));
  std::int64_t left = 0;
  for (const Stretch& stretch : order.stretches())
    for (const StepRun& run : stretch.runs)
      for (const PipelineStep& step : run)
        if (step.kind == StepKind::kInputBackward && leaves[static_cast<std::size_t>(step.chunk)])
          left += run.times * stretch.times;
  if (left > 0) events.push_back({gradient_of_received_, static_cast<std::int32_t>(left)});
}

template <class N>
typename StagePrograms<N>::Edge StagePrograms<N>::edge_of(const Stage<N>& stage,
                                                          const std::vector<Group>& groups) const {
  if (groups.empty()) return {};
  if (names_received_) return {false, !stage.head && stage.output_gradient};
  if (!torch_pipeline_) return {};
  return {!stage.embedding, !stage.head};
}

template <class N>
SlotId StagePrograms<N>::output_of(const Stage<N>& stage) const {
  if (!stage.head) return hidden_;
  return head_.outliving.empty() ? -1 : head_.outliving.front();
}

template <class N>
std::int64_t StagePrograms<N>::kept_outputs(std::int64_t rank) const {
  const std::int64_t micro_batches = job_.training.gradient_accumulation;
  return std::min(std::max<std::int64_t>(2, shape_.ranks - rank + 1), micro_batches);
}

template <class N>
void StagePrograms<N>::take_from_buffers(const Stage<N>& stage, bool first,
                                         std::vector<Event>& events) const {
  if (stage.head && first && loss_ >= 0) events.push_back({loss_, 1});  // the sum of the losses
  if (!reads_batch(stage)) return;
  events.push_back({ids_, 1});
  if (!first && lets_output_go_in_forward(stage)) events.push_back({ids_, -1});
}

template <class N>
void StagePrograms<N>::hold_full_buffers(const Stage<N>& stage, std::int32_t times,
                                         std::vector<Event>& events) const {
  hold_last_received(stage, times, events);
  if (!keeps_outputs_) return;
  const auto kept = static_cast<std::int32_t>(kept_outputs(stage.index)) * times;
  if (const SlotId output = output_of(stage); output >= 0) events.push_back({output, kept});
  if (stage.head && loss_ >= 0) events.push_back({loss_, times});
  if (reads_batch(stage)) events.push_back({ids_, kept});
}

template <class N>
void StagePrograms<N>::hold_last_received(const Stage<N>& stage, std::int32_t times,
                                          std::vector<Event>& events) const {
  if (!names_received_ || stage.embedding) return;
  events.push_back({hidden_, times});
  if (stage.input_gradient) events.push_back({hidden_gradient_, times});
}

template <class N>
bool StagePrograms<N>::lets_output_go_in_forward(const Stage<N>& stage) const {
  if (keeps_outputs_) return kept_outputs(stage.index) < job_.training.gradient_accumulation;
  return torch_pipeline_ && !torch_steps_ &&
         in_flight(order_->rank_order(shape_, stage.index), 1).most == 1;
}

template <class N>
void StagePrograms<N>::end_of_torch_step(const Stage<N>& stage, std::vector<Event>& events) const {
  const auto micro_batches = static_cast<std::int32_t>(job_.training.gradient_accumulation);
  // The two written-out loops have names for what they sent last.
  if (!torch_steps_) {
    if (!stage.embedding && stage.input_gradient) events.push_back({hidden_gradient_, -1});
    if (const SlotId output = output_of(stage); output >= 0) events.push_back({output, -1});
  }
  events.push_back({ids_, -micro_batches});
  events.push_back({labels_, -micro_batches});
  if (stage.head && loss_ >= 0) events.push_back({loss_, -micro_batches});
}

template <class N>
template <class Line>
typename Line::Part StagePrograms<N>::torch_micro_batches(Line& line, const Chunk& chunk,
                                                          NodeId first_backward,
                                                          std::int64_t in_flight) {
  const std::int64_t micro_batches = job_.training.gradient_accumulation;
  const std::int64_t warm_up = in_flight - 1;
  const auto forward = line.of(chunk.forward[1]), backward = line.of(chunk.backward[1]);
  const auto first_forward = line.of(chunk.forward[0]), first = line.of(first_backward);
  // One in flight: what it has given goes in the forward of the next.
  if (warm_up == 0)
    return line.sequence("", {line.sequence("", {first_forward, first}),
                              line.repeat("micro-batch", line.sequence("", {forward, backward}),
                                          micro_batches - 1)});
  std::vector<Event> given;
  if (chunk.output >= 0) given.push_back({chunk.output, -1});
  const auto release = line.tape(Phase::kBackward, "", given);
  return line.sequence(
      "", {first_forward, line.repeat("warm-up", forward, warm_up - 1),
           line.sequence("", {forward, first, release}),
           line.repeat("micro-batch", line.sequence("", {forward, backward, release}),
                       micro_batches - warm_up - 1),
           line.repeat("drain", line.sequence("", {backward, release}), warm_up - 1), backward});
}

template <class N>
template <class Line>
typename Line::Part StagePrograms<N>::micro_batches(Line& line, std::int64_t rank,
                                                    const Parts& parts, const RankOrder& order,
                                                    bool first_step) {
  using Played = typename Line::Part;
  std::vector<Played> nodes;
  if (torch_pipeline_) {
    const auto all = static_cast<std::int32_t>(job_.training.gradient_accumulation);
    std::vector<Event> start;
    // A step begins by taking the gradients of the step before off what was received.
    if (!first_step) {
      hold_gradients_of_received(rank, order, start);
      for (Event& event : start) event.count = -event.count;
    }
    start.push_back({ids_, all});
    start.push_back({labels_, all});
    nodes.push_back(line.tape(Phase::kForward, "inputs", start));
    if (torch_steps_) nodes.push_back(line.of(parts.begin_step));
  }
  if (torch_pipeline_ && !torch_steps_) {
    const Chunk& chunk = chunks_[parts.chunks.front()];
    nodes.push_back(torch_micro_batches(line, chunk,
                                        first_step ? chunk.first_step_backward : chunk.backward[0],
                                        in_flight(order, 1).most));
    return line.sequence("micro-batches", nodes);
  }
  // What a chunk's first step makes, later ones find.
  struct Turn {
    bool forward = false, input = false, weight = false;
  };
  std::vector<Turn> turns(parts.chunks.size());
  bool workspaces = !first_step;
  std::array<bool, 4> vocabulary_ran{};
  const auto of_vocabulary = [](const PipelineStep& step) {
    return static_cast<std::size_t>(step.kind) - static_cast<std::size_t>(StepKind::kLookup);
  };
  const auto node_of = [&](const PipelineStep& step, bool is_last) -> Played {
    if (is_of_vocabulary(step.kind)) {
      bool& ran = vocabulary_ran[of_vocabulary(step)];
      return line.of(parts.vocabulary[of_vocabulary(step)][std::exchange(ran, true) ? 1 : 0]);
    }
    const Chunk& chunk = chunks_[parts.chunks[static_cast<std::size_t>(step.chunk)]];
    Turn& turn = turns[static_cast<std::size_t>(step.chunk)];
    const auto later = [](bool& has_run) { return std::exchange(has_run, true) ? 1U : 0U; };
    if (step.kind == StepKind::kForward) {
      const bool is_first = first_step && !turn.forward;
      const NodeId node = chunk.forward[later(turn.forward)];
      return line.of(is_first ? chunk.first_step_forward : node);
    }
    StepKind kind = step.kind;
    if (chunk.all_waits && kind == StepKind::kInputBackward) return line.of(book_.program.empty());
    if (chunk.all_waits) kind = StepKind::kBackward;
    const bool in_first_step = !std::exchange(workspaces, true);
    switch (kind) {
      case StepKind::kInputBackward: {
        const NodeId later_on = chunk.input_backward[later(turn.input)];
        const NodeId node = in_first_step ? chunk.first_step_input_backward : later_on;
        if (!chunk.keeps_input_gradient) return line.of(node);
        const std::vector<Event> left = {{gradient_of_received_, 1}};
        return line.sequence("", {line.of(node), line.tape(Phase::kBackward, "", left)});
      }
      case StepKind::kWeightBackward:
        return line.of(chunk.weight_backward[later(turn.weight)]);
      default: {
        turn.weight = true;
        const NodeId one_of_many = chunk.backward[later(turn.input)];
        const NodeId node = is_last ? chunk.last_backward.value_or(one_of_many) : one_of_many;
        return line.of(in_first_step ? chunk.first_step_backward : node);
      }
    }
  };
  // The last step of each chunk, behind which its gradients are reduced.
  const std::vector<Stretch>& stretches = order.stretches();
  const auto ends = [](const PipelineStep& step) {
    return step.kind == StepKind::kBackward || step.kind == StepKind::kWeightBackward;
  };
  struct LastStep {
    std::size_t stretch = 0, run = 0;
  };
  std::vector<LastStep> last(parts.chunks.size());
  for (std::size_t stretch = 0; stretch < stretches.size(); ++stretch)
    for (std::size_t run = 0; run < stretches[stretch].runs.size(); ++run)
      for (const PipelineStep& step : stretches[stretch].runs[run])
        if (ends(step)) last[static_cast<std::size_t>(step.chunk)] = {stretch, run};
  const auto has_new_steps = [&](const StepRun& run) {
    return std::any_of(run.begin(), run.end(), [&](const PipelineStep& step) {
      if (is_of_vocabulary(step.kind)) return !vocabulary_ran[of_vocabulary(step)];
      const Turn& turn = turns[static_cast<std::size_t>(step.chunk)];
      if (step.kind == StepKind::kForward) return !turn.forward;
      if (chunks_[parts.chunks[static_cast<std::size_t>(step.chunk)]].all_waits)
        return ends(step) && !turn.input;
      return step.kind == StepKind::kWeightBackward ? !turn.weight : !turn.input;
    });
  };
  const auto round_of = [&](std::size_t stretch, bool last_round) {
    const std::vector<StepRun>& runs = stretches[stretch].runs;
    std::vector<Played> round;
    for (std::size_t at = 0; at < runs.size(); ++at) {
      const StepRun& run = runs[at];
      const auto is_last = [&](const PipelineStep& step) {
        const LastStep& end = last[static_cast<std::size_t>(step.chunk)];
        return last_round && ends(step) && end.stretch == stretch && end.run == at;
      };
      const auto play = [&](std::vector<Played>& played, bool to_the_end) {
        for (const PipelineStep& step : run) {
          const bool chunk_ends = to_the_end && is_last(step);
          played.push_back(node_of(step, chunk_ends));
          if (chunk_ends && torch_steps_)
            played.push_back(
                line.of(chunks_[parts.chunks[static_cast<std::size_t>(step.chunk)]].reduce));
        }
      };
      const bool begins = has_new_steps(run), stops = std::any_of(run.begin(), run.end(), is_last);
      if (begins || run.times == 1) play(round, run.times == 1);
      const std::int64_t between =
          run.times - (begins || run.times == 1 ? 1 : 0) - (stops && run.times > 1 ? 1 : 0);
      if (between > 0) {
        std::vector<Played> once;
        play(once, false);
        line.append(round, once, between);
      }
      if (stops && run.times > 1) play(round, true);
    }
    return round.size() == 1 && !last_round ? round.front() : line.sequence("", round);
  };
  // Rounds are alike but for the first, where something in it has not run yet, and for the last, where a chunk ends.
  for (std::size_t stretch = 0; stretch < stretches.size(); ++stretch) {
    const char* label = stretches[stretch].label;
    const std::vector<StepRun>& runs = stretches[stretch].runs;
    const std::int64_t times = stretches[stretch].times;
    const bool new_steps = std::any_of(runs.begin(), runs.end(), has_new_steps);
    const bool chunk_ends = (torch_steps_ || engine_->differs_in_last()) &&
                            std::any_of(last.begin(), last.end(), [&](const LastStep& end) {
                              return end.stretch == stretch;
                            });
    const bool one_round = times == 1;
    if (new_steps) nodes.push_back(round_of(stretch, chunk_ends && one_round));
    const bool last_apart = chunk_ends && !(new_steps && one_round);
    const std::int64_t between = times - (new_steps ? 1 : 0) - (last_apart ? 1 : 0);
    if (between > 0) nodes.push_back(line.repeat(label, round_of(stretch, false), between));
    if (last_apart) nodes.push_back(round_of(stretch, true));
  }
  return line.sequence("micro-batches", nodes);
}

// A steady step from the end of its passes on, with its checkpoint.
template <class N>
template <class Line>
typename Line::Part StagePrograms<N>::stepped(Line& line, typename Line::Part passes,
                                              const Parts& parts) {
  if (job_.graphs.of != CudaGraphs::kIteration) {
    const auto step = line.sequence(
        "step", {passes, line.of(parts.reduce), line.of(parts.prepared), line.of(parts.optimizer)});
    return line.sequence("", {step, line.of(parts.checkpoint)});
  }
  // All that forward and backward ever held is the graph's, and stays so while others run.
  const auto captured = line.sequence("", {passes, line.of(parts.reduce)});
  const std::int64_t room = line.height(captured) - line.change(captured);
  const auto pool =
      line.hold(Phase::kOptimizer, Pile::kActivations, room, [&] { return graph_pool(room); });
  const auto step =
      line.sequence("step", {captured, pool, line.of(parts.prepared), line.of(parts.optimizer)});
  return line.sequence("",
                       {step, line.of(parts.checkpoint), line.let_go(Phase::kCheckpoint, pool)});
}

// From nothing to the end of a steady step.
template <class N>
template <class Line>
typename StagePrograms<N>::template LaterStep<Line> StagePrograms<N>::later_step(
    Line& line, std::int64_t rank, const Parts& parts, const RankOrder& order) {
  std::vector<Event> left;
  hold_gradients_of_received(rank, order, left);
  const auto held_later = line.sequence(
      "", {line.of(parts.held_later), line.tape(Phase::kBackward, "first step", left)});
  LaterStep<Line> result;
  result.later_step = stepped(line, micro_batches(line, rank, parts, order, false), parts);
  auto workspaces = line.of(parts.forward_workspaces);
  if (job_.graphs.of == CudaGraphs::kIteration && reads_batch(stage_of(rank)))
    workspaces = line.sequence(
        "", {workspaces, line.hold(Phase::kForward, Pile::kActivations, graph_input_bytes(),
                                   [&] { return graph_inputs(); })});
  if (engine_->makes_states_at_load()) {
    result.start = line.sequence("", {line.of(parts.load), line.of(parts.states), workspaces});
    result.root = line.sequence("", {result.start, held_later, result.later_step});
    return result;
  }
  result.start = line.sequence("", {line.of(parts.load), workspaces});
  result.root = line.sequence("", {result.start, held_later, line.of(parts.states),
                                   line.of(parts.late_states), result.later_step});
  return result;
}

template <class N>
StageProgram StagePrograms<N>::build(std::int64_t index) {
  NodeLine line(book_.program);
  const Parts& parts = parts_of(index);
  const RankOrder order = order_->rank_order(shape_, index);
  const LaterStep<NodeLine> later = later_step(line, index, parts, order);
  StageProgram result;
  result.in_flight = in_flight(order, shape_.chunks).most;
  result.later_step = later.later_step;
  result.root = later.root;
  result.before_first_step = later.start;
  const NodeId first_gradients = line.sequence(
      "", {micro_batches(line, index, parts, order, true), parts.reduce, parts.prepared});
  result.first_step =
      engine_->makes_states_at_load() || engine_->makes_states_in_backward()
          ? line.sequence("", {later.start, first_gradients, parts.optimizer, parts.left})
          : line.sequence("", {later.start, first_gradients, parts.states, parts.optimizer,
                               parts.late_states, parts.left});
  return result;
}

template <class N>
Crest StagePrograms<N>::crest(std::int64_t index) {
  crests_.forget();
  const Parts& parts = parts_of(index);
  return *later_step(crests_, index, parts, order_->rank_order(shape_, index)).root;
}

template class StagePrograms<Checked>;
template class StagePrograms<Traced>;

}  // namespace steelyard
