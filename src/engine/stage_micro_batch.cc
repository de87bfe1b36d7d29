// Forward and backward of one micro-batch on a stage: inputs and embedding, layers, head, and what goes with them.
#include <algorithm>

#include "engine/stage_program.h"

namespace steelyard {

template <class N>
NodeId StagePrograms<N>::forward_node(const Stage<N>& stage, const Chunk& chunk, bool first) {
  Program& program = book_.program;
  const std::vector<Group>& groups = chunk.groups;
  std::vector<Event> start;
  const std::int32_t leaving = leaving_of(groups);
  if (loop_.kept) {
    if (!very_first_) start.push_back({ids_, -1});
    if (first) start.push_back({loop_.sums, 1});
  }
  if (keeps_outputs_) {
    take_from_buffers(stage, first, start);
  } else if (!torch_pipeline_) {
    if (reads_ids(stage)) start.push_back({ids_, 1});
    if (reads_labels(stage)) start.push_back({labels_, 1});
    if (sees()) start.push_back({stacks_->pixels, 1});
  }
  if (very_first_ && engine_->learns_from_first()) before_first_forward(stage, start);
  hold_whole_inputs(stage, 1, start);
  if (!sees())
    for (const SharedInput& input : inputs_) {
      append(start, input.making);
      start.push_back({input.slot, input.count});
      append(start, input.made);
    }
  engine_->begin_forward(stage, first, start);
  // LitGPT's loop has a name for the loss of the micro-batch before until that of this one is there, and so its graph.
  std::vector<Event> of_graph_before;
  const auto stays = [&](const Tapes& of, std::int64_t times) {
    for (const SlotId slot : of.by_nodes)
      of_graph_before.push_back({slot, static_cast<std::int32_t>(times)});
  };
  if (!first && job_.implementation == Implementation::kLitgpt) {
    if (stage.head) stays(head_, 1);
    for (const Group& group : groups)
      for (const Run& run : group.runs) stays(tapes(run.variant), run.count * group.times);
  }
  append(start, of_graph_before);
  if (leaving > 0) start.push_back({loop_.leaving, leaving});
  Edge edge = edge_of(stage, groups);
  edge.named_input = holds_embedding_output(stage, groups);
  if (stage.embedding) {
    append(start, embedding_.forward);
    engine_->after_embedding(stage, start);
  } else if (!edge.input && !chunk.hands_in) {
    start.push_back({hidden_, 1});  // from the stage before
  }
  const int last = groups.empty() ? -1 : groups.back().runs.back().variant / 2;
  std::vector<Event> finish;
  const auto let_go = [&](bool of_the_loop) {
    for (const SharedInput& input : inputs_)
      if (!input.kept && input.of_the_loop == of_the_loop)
        finish.push_back({input.slot, -input.count});
  };
  const auto returns = head_.forward.begin() + static_cast<std::ptrdiff_t>(head_.model_returns);
  // A final norm that is trained saves one more, and the input of the last layer goes, too.
  if (leaving > 0) finish.push_back({loop_.leaving, (job_.adapter ? 1 : 0) - leaving});
  if (stage.head) {
    engine_->before_head(stage, last, first, finish);
    finish.insert(finish.end(), head_.forward.begin(), returns);
  }
  let_go(false);
  if (edge.named_input) finish.push_back({hidden_, -1});
  if (stacks_)
    decoder_returns(finish);
  else if (stage.embedding)
    for (SlotId slot : embedding_.named) finish.push_back({slot, -1});
  // The autocast context is left with what the model returns, the loss or its logits, and its cache of cast weights with it.
  const std::array<std::vector<Group>, 2> stacks = stacks_of(groups);
  const auto leave_autocast = [&] {
    const auto drop = [&](const Tapes& of, std::int64_t times) {
      for (SlotId slot : of.lingering) finish.push_back({slot, static_cast<std::int32_t>(-times)});
    };
    for (const std::vector<Group>& layers_of_stack : stacks)
      for (const Group& group : layers_of_stack)
        for (const Run& run : group.runs) {
          const bool lowest = &group == &layers_of_stack.front() && &run == &group.runs.front();
          const bool highest = &group == &layers_of_stack.back() && &run == &group.runs.back();
          const Edge below{lowest && edge.input, false, false, false};
          const Edge above{false, highest && edge.gradient, false, highest && stacks_ && !sees()};
          const std::int64_t layers = run.count * group.times;
          if (layers == 1) {
            drop(tapes(run.variant, {below.input, above.gradient, false, above.top}), 1);
            continue;
          }
          const std::int64_t at_edges = (below == Edge{} ? 0 : 1) + (above == Edge{} ? 0 : 1);
          if (below != Edge{}) drop(tapes(run.variant, below), 1);
          if (above != Edge{}) drop(tapes(run.variant, above), 1);
          if (layers > at_edges) drop(tapes(run.variant), layers - at_edges);
        }
    if (stage.embedding) drop(embedding_, 1);
    if (stacks_) drop(stacks_->bridge, 1);
    if (stage.head) drop(head_, 1);
  };
  // Of a preference the trainer makes the loss of what it was given.
  const bool loss_outside = stage.head &&
                            job_.training.log_probabilities != LogProbabilities::kNone &&
                            job_.training.log_probabilities != LogProbabilities::kTiles;
  const bool returns_logits = stage.head && (calls_loss() || loss_outside);
  if (stage.head) {
    const auto logits = head_.forward.begin() + static_cast<std::ptrdiff_t>(head_.logits);
    finish.insert(finish.end(), returns, logits);
    engine_->after_head(stage, finish);
    if (returns_logits) engine_->end_forward(stage, last, first, finish);
    if (loss_outside) leave_autocast();
    std::vector<Event> of_loss(logits, head_.forward.end());
    if (loss_outside) hand_out_logits(of_loss);
    append(finish, of_loss);
  } else if (keeps_outputs_ ? !first && lets_output_go_in_forward(stage)
                            : torch_pipeline_ == chunk.hands_on)
    // Sent, and let go (Megatron's deallocate_pipeline_outputs). torch keeps it; handed over, it takes the place of a
    // buffer, and that one goes.
    finish.push_back({hidden_, -1});
  if (stage.head && divides_vocabulary()) {
    finish.push_back({graphs_->vocabulary->given, 1});  // a copy, for the output layer
    finish.push_back({hidden_, -1});
  }
  if (stacks_) model_returns(finish);
  let_go(true);
  if (!first && stage.head && lets_output_go_in_forward(stage))
    // The schedule's name for the last output passes to this one.
    for (SlotId output : head_.outliving)
      finish.insert(std::next(std::find_if(finish.begin(), finish.end(),
                                           [&](const Event& event) {
                                             return event.slot == output && event.count > 0;
                                           })),
                    {output, -1});
  if (!loss_outside) leave_autocast();
  for (const Event& event : of_graph_before) finish.push_back({event.slot, -event.count});
  if (loop_.kept) {
    if (!very_first_) finish.push_back({loss_, -1});
    if (first) finish.push_back({loop_.sums, 1});
  }
  if (labels_go_in_forward() && reads_labels(stage)) finish.push_back({labels_, -1});
  if (ids_go_in_forward(stage) && reads_ids(stage)) finish.push_back({ids_, -1});
  if (!returns_logits) engine_->end_forward(stage, last, first, finish);
  const NodeId at_start = program.tape(passage(), stage.embedding ? "embedding" : "receive", start);
  const NodeId at_end = program.tape(passage(), stage.head ? "loss" : "send", finish);
  if (stage.embedding) note_launches(at_start, embedding_, true, first);
  if (stage.head) note_launches(at_end, head_, true, first);
  if (stacks_) {
    edge.top = !sees();
    const int under = stacks[0].back().runs.back().variant / 2;
    const int above = stacks[1].front().runs.front().variant / 2;
    const auto layers = [&](const std::vector<Group>& stack, Beyond beyond) {
      return layers_node(stack, edge, true, first, false, BackwardPart::kWhole, beyond);
    };
    return program.sequence("forward",
                            {at_start, layers(stacks[0], {-1, above}), bridge_node(true, first),
                             layers(stacks[1], {under, -1}), at_end});
  }
  return program.sequence("forward",
                          {at_start, layers_node(groups, edge, true, first, false), at_end});
}

// DDP hands out copies of what the model returns, and lets that go (nn/parallel/distributed.py, _DDPSink).
template <class N>
void StagePrograms<N>::hand_out_logits(std::vector<Event>& of_loss) {
  if (job_.engine != Engine::kDdp || job_.parallel.data == 1 || scores()) return;
  const ElementType type = style_.autocast ? ElementType::kFloat32 : style_.compute;
  const SlotId copy = book_.slot({"loss", "logits, copied as they are handed out", "ddp.outputs"},
                                 Pile::kTemporary, sizes_.tokens * sizes_.vocabulary, type);
  // Under autocast, of what accelerate has widened before.
  const std::size_t widened = std::min<std::size_t>(style_.autocast ? 2 : 0, of_loss.size());
  of_loss.insert(of_loss.begin() + static_cast<std::ptrdiff_t>(widened), {{copy, 1}, {copy, -1}});
}

// Inputs of layers on their way to the host, beside the last one's: training/_activation_offloading.py, max_fwd_stash_size.
template <class N>
std::int32_t StagePrograms<N>::leaving_of(const std::vector<Group>& groups) const {
  if (!loop_.kept || !style_.offloads_saved) return 0;
  // Numbers of saved tensors, of which a checkpoint takes two: for the input and for the empty tensor beside it.
  constexpr std::int64_t kStash = 5, kOfCheckpoint = 2;
  std::int64_t layers = 0;
  for (const Group& group : groups)
    for (const Run& run : group.runs) layers += run.count * group.times;
  return static_cast<std::int32_t>(
      std::clamp<std::int64_t>(layers - 1, 0, (kStash - 1) / kOfCheckpoint));
}

template <class N>
bool StagePrograms<N>::holds_embedding_output(const Stage<N>& stage,
                                              const std::vector<Group>& groups) {
  if (!stage.embedding || groups.empty() || torch_pipeline_) return false;
  if (sees()) {
    // The decoder's embeddings, with the patches among them.
    const Group lowest = stacks_of(groups)[1].front();
    return !tapes(lowest.runs.front().variant).composer->graph.is_saved(kLayerInput);
  }
  const Graph<N>& first = tapes(groups.front().runs.front().variant).composer->graph;
  return embedding_.composer->graph.names_result() && !first.is_saved(kLayerInput);
}

template <class N>
typename StagePrograms<N>::Backward StagePrograms<N>::backward_node(const Stage<N>& stage,
                                                                    const Chunk& chunk, bool first,
                                                                    BackwardPart part) {
  Program& program = book_.program;
  const std::vector<Group>& all_groups = chunk.groups;
  // Backward ends where nothing below is trained.
  std::vector<Group> groups = all_groups;
  for (Group& group : groups)
    std::erase_if(group.runs, [&](const Run& run) { return is_untouched(run.variant); });
  std::erase_if(groups, [](const Group& group) { return group.runs.empty(); });
  Edge edge = edge_of(stage, all_groups);
  // Where the first layer stands below what is trained, another one is backward's last.
  edge.input = edge.input && !is_untouched(all_groups.front().runs.front().variant);
  edge.top = returns_late();
  const GradientPolicy policy = engine_->gradient_policy(first);
  std::vector<Event> start;
  const bool sends = torch_pipeline_ && !stage.embedding && stage.input_gradient;
  const bool sent = sends && !torch_steps_ && !first;
  // GPipe asks for the next gradient before it forgets the last one it has sent; where none comes, and in 1F1B, that is
  // when the next one is sent.
  const bool forgets_first = !stage.head && job_.parallel.schedule == PipelineSchedule::kGPipe;
  if (sent && forgets_first) start.push_back({hidden_gradient_, -1});
  // The name of a stage's output holds the graph that ends in what was received, until the next one is there.
  const bool keeps_received = names_received_ && !stage.embedding;
  if (keeps_received && !first) start.push_back({hidden_, -1});
  engine_->begin_backward(stage, first, start);
  const bool from_loss = stage.head && loss_ >= 0;
  if (from_loss) start.push_back({loss_gradient_, 1});  // ones_like(loss), the caller's
  std::vector<Event> products;                          // from the first one on
  if (stage.head) {
    const std::vector<Event> of_head =
        backward_events(head_, part, first, !head_.gradients.empty());
    const SplitTapes& marks = head_.beginning_under(policy, part);
    const auto at = [&](std::size_t mark) {
      return of_head.begin() + static_cast<std::ptrdiff_t>(mark);
    };
    start.insert(start.end(), of_head.begin(), at(marks.before_products));
    engine_->around_head_product(1, start);
    // What the engine does with the head's own gradient is part of it.
    const std::size_t behind = of_head.size() - marks.input.size();
    const bool in_product = marks.first_gradient <= marks.first_product_ran;
    // A norm alone, where others multiply, has no product.
    const std::size_t ran =
        std::max(marks.first_product_ran + (in_product ? behind : 0), marks.before_products);
    products.assign(at(marks.before_products), at(ran));
    engine_->around_head_product(-1, products);
    products.insert(products.end(), at(ran), of_head.end());
    if (part != BackwardPart::kInput) engine_->after_head_backward(stage, first, products);
    // autograd's thread takes its workspace when it has allocated what the first product gives.
    if (!products.empty() && products.front().count > 0) {
      start.push_back(products.front());
      products.erase(products.begin());
    }
  } else if (stage.output_gradient && (!edge.gradient || names_received_) && !chunk.hands_on) {
    start.push_back({hidden_gradient_, 1});
    if (edge.gradient && !first) start.push_back({hidden_gradient_, -1});  // the one before
  }
  if (job_.adapter && leaving_of(all_groups) > 0) products.push_back({loop_.leaving, -1});
  std::vector<Event> finish;
  for (const SharedInput& input : inputs_) {
    const Position lowest = lowest_reader(input, groups).value_or(Position{});
    if (input.kept && lowest == Position{} && lets_inputs_go(part) && !sees())
      finish.push_back({input.slot, -input.count});
  }
  if (stage.embedding) {
    if (part == BackwardPart::kWhole) engine_->before_embedding_backward(stage, finish);
    append(finish, embedding_.backward_under(policy, part));
    if (labels_go_in_forward() && !ids_go_in_forward(stage) && reads_ids(stage))
      finish.push_back({ids_, -1});
    if (divides_vocabulary() && graphs_->vocabulary->summed != hidden_)
      finish.push_back({graphs_->vocabulary->summed, -1});
    // Megatron's second stage sends a gradient even to a first one that has no use for it.
    if (!stage.head && stage.output_gradient && groups.empty() && embedding_.gradients.empty())
      finish.push_back({hidden_gradient_, -1});
  } else if (stage.input_gradient && !torch_pipeline_ && !chunk.hands_in &&
             !(names_received_ && first)) {
    finish.push_back({hidden_gradient_, -1});  // sent; where it has a name, the one before
  }
  if (returns_late() && !groups.empty()) {
    std::vector<SlotId> returned = embedding_.composer->graph.returned_last();
    if (returned.empty())
      returned = tapes(groups.front().runs.front().variant).composer->graph.returned_last();
    for (const SlotId slot : returned) finish.push_back({slot, -1});
  }
  if (keeps_received) finish.push_back({hidden_, 1});
  const int last = groups.empty() ? -1 : groups.front().runs.front().variant / 2;
  if (part == BackwardPart::kWhole) {
    const auto trains = [&](const Group& group) {
      return std::any_of(group.runs.begin(), group.runs.end(), [&](const Run& run) {
        return !gradients_of_kind_[static_cast<std::size_t>(run.variant / 2)].empty();
      });
    };
    if ((!stage.head || head_.gradients.empty()) &&
        std::none_of(groups.begin(), groups.end(), trains))
      engine_->first_gradients(first, finish);
    engine_->end_backward(stage, last, first, finish);
  }
  hold_whole_inputs(stage, -1, finish);
  // What the buffers will be full of: each further output takes the place of an older one.
  if (keeps_outputs_ && first && lets_output_go_in_forward(stage)) {
    const auto others = static_cast<std::int32_t>(kept_outputs(stage.index) - 1);
    if (const SlotId output = output_of(stage); output >= 0) finish.push_back({output, others});
    if (reads_batch(stage)) finish.push_back({ids_, others});
  }
  if (from_loss) finish.push_back({loss_gradient_, -1});
  if (stacks_) stacks_end(finish);
  // torch's pipelines keep losses and inputs for the whole step.
  if (!torch_pipeline_ && !loop_.kept) {
    if (from_loss) finish.push_back({loss_, -1});
    if (reads_labels(stage) && !keeps_outputs_ && !labels_go_in_forward())
      finish.push_back({labels_, -1});
    if (sees()) finish.push_back({stacks_->pixels, -1});
    if (reads_ids(stage) && !keeps_outputs_ && !labels_go_in_forward())
      finish.push_back({ids_, -1});
  } else if (torch_steps_) {
    // Each step of the runtime lets go what it had: the gradient is sent, the output was the root of this backward.
    if (sends) finish.push_back({hidden_gradient_, -1});
    // What the weights' turn starts from is held until then.
    const bool waits = part == BackwardPart::kInput && !stage.head;
    if (const SlotId output = output_of(stage); output >= 0 && !chunk.hands_on && !waits)
      finish.push_back({output, -1});
  } else if (sent && !forgets_first) {
    finish.push_back({hidden_gradient_, -1});
  }
  Backward backward;
  backward.before_products = program.tape(Phase::kBackward, stage.head ? "loss" : "receive", start);
  const NodeId of_products = program.tape(Phase::kBackward, "loss", products);
  const NodeId at_end =
      program.tape(Phase::kBackward, stage.embedding ? "embedding" : "send", finish);
  if (stage.head) note_launches(of_products, head_, false, first);
  if (stage.embedding) note_launches(at_end, embedding_, false, first);
  book_.launch(at_end, engine_->launches(stage).after_backward);
  if (stacks_) {
    edge.top = !sees();
    const std::array<std::vector<Group>, 2> stacks = stacks_of(groups);
    // Backward may end above what stands lower.
    const int under = stacks[0].empty() ? -1 : stacks[0].back().runs.back().variant / 2;
    const int above = stacks[1].empty() ? -1 : stacks[1].front().runs.front().variant / 2;
    const auto layers = [&](const std::vector<Group>& stack, Beyond beyond) {
      return layers_node(stack, edge, false, first, stage.head && !head_.gradients.empty(), part,
                         beyond);
    };
    backward.rest =
        program.sequence("", {of_products, layers(stacks[1], {-1, under}),
                              bridge_node(false, first), layers(stacks[0], {above, -1}), at_end});
    return backward;
  }
  backward.rest = program.sequence(
      "", {of_products,
           layers_node(groups, edge, false, first, stage.head && !head_.gradients.empty(), part),
           at_end});
  return backward;
}

template <class N>
std::optional<typename StagePrograms<N>::Position> StagePrograms<N>::lowest_reader(
    const SharedInput& input, const std::vector<Group>& groups) {
  for (std::size_t group = 0; group < groups.size(); ++group)
    for (std::size_t run = 0; run < groups[group].runs.size(); ++run)
      if (input.readers[static_cast<std::size_t>(groups[group].runs[run].variant / 2)])
        return Position{group, run};
  return std::nullopt;
}

template <class N>
NodeId StagePrograms<N>::inputs_gone_after(const std::vector<Group>& groups, Position position) {
  if (position == Position{}) return book_.program.empty();
  std::vector<Event> events;
  for (const SharedInput& input : inputs_)
    if (input.kept && lowest_reader(input, groups) == position)
      events.push_back({input.slot, -input.count});
  if (events.empty()) return book_.program.empty();
  return book_.program.tape(Phase::kBackward, "", events);
}

// What the gradient of the input has left: in the same order, the gradients of the weights.
template <class N>
NodeId StagePrograms<N>::weight_backward_node(const Stage<N>& stage, const Chunk& chunk,
                                              bool first) {
  const GradientPolicy policy = engine_->gradient_policy(first);
  std::vector<Group> groups = chunk.groups;
  for (Group& group : groups)
    std::erase_if(group.runs, [&](const Run& run) { return is_untouched(run.variant); });
  std::erase_if(groups, [](const Group& group) { return group.runs.empty(); });
  Edge edge = edge_of(stage, chunk.groups);
  edge.input = edge.input && !is_untouched(chunk.groups.front().runs.front().variant);
  std::vector<Event> start, finish;
  // torch goes through the parameters, the head's last; the others through what was put off, the head's first.
  if (stage.head) {
    std::vector<Event>& of_head = torch_pipeline_ ? finish : start;
    append(of_head, head_.backward_under(policy, BackwardPart::kWeight));
    engine_->after_head_backward(stage, first, of_head);
  }
  if (stage.embedding) append(finish, embedding_.backward_under(policy, BackwardPart::kWeight));
  const int last = groups.empty() ? -1 : groups.front().runs.front().variant / 2;
  engine_->end_backward(stage, last, first, finish);
  if (lets_inputs_go(BackwardPart::kWeight))
    for (const SharedInput& input : inputs_) {
      const Position lowest = lowest_reader(input, groups).value_or(Position{});
      if (input.kept && lowest == Position{}) finish.push_back({input.slot, -input.count});
    }
  if (torch_steps_ && !stage.head && !chunk.hands_on) finish.push_back({output_of(stage), -1});
  Program& program = book_.program;
  return program.sequence(
      "weights", {program.tape(Phase::kBackward, "weights of the head", start),
                  layers_node(groups, edge, false, first, stage.head && !head_.gradients.empty(),
                              BackwardPart::kWeight),
                  program.tape(Phase::kBackward, "", finish)});
}

template class StagePrograms<Checked>;
template class StagePrograms<Traced>;

}  // namespace steelyard
