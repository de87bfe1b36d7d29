// Where the vocabulary's layers are divided over all stages of a pipeline: what a rank holds around its part of them.
//
//   lookup             token ids and labels, until the output layer has read them; rows of the tokens, summed over the stages
//   first stage        the sums, until its own backward
//   last stage         what it has given, until its output layer reads it
//   output             the hidden states as they were sent, in fp32, and the output layer's input from them
//   output, backward   the gradient of that input, summed over the stages
//   lookup, backward   the gradient of the sums, from the first stage
//
// Under 1F1B the schedule has names for what was sent, this one and the next, and for the gradient: each until the next one. The
// runtime of zero bubbles posts what is sent when it is needed, and drops the gradient where nobody goes backward from it: its
// published list of them grows on all stages but the last part's, which those that were measured did not (of V-Half the authors
// say that the first stage has most, by less than 2.5 GB). The interlaced pipeline sends in 16 bits.
//
// Sources: sail-sg/VocabularyParallelism megatron/core/pipeline_parallel/{vocab_parallel_schedule,interlaced_schedule}.py;
// sail-sg/zero-bubble-pipeline-parallelism, branch v-half-vocab, megatron/core/pipeline_parallel/zerobubble/runtime.py.
#include "engine/stage_program.h"
#include "operators/ends.h"

namespace steelyard {

template <class N>
void StagePrograms<N>::compose_vocabulary() {
  const Architecture& model = *job_.model;
  const bool gradient_in_forward = job_.parallel.vocabulary == VocabularyLayers::kOneExchange;
  Vocabulary& v = *(graphs_->vocabulary = std::make_unique<Vocabulary>());
  const N hidden = sizes_.tokens * sizes_.hidden;
  const auto slot = [&](const char* owner, const char* name, const char* rule, Pile pile,
                        ElementType type) {
    return book_.slot({owner, name, rule}, pile, hidden, type);
  };
  v.given = slot("output layer", "input", "vocabulary.output-input", Pile::kActivations,
                 v_half() ? ElementType::kFloat32 : style_.residual);
  v.input = v_half() ? slot("output layer", "input", "vocabulary.output-input", Pile::kActivations,
                            style_.residual)
                     : v.given;
  v.sent = slot("output layer", "hidden states as sent", "vocabulary.sent-hidden-states",
                Pile::kCommunication, ElementType::kFloat32);
  v.copied = slot("output layer", "hidden states as sent, copied", "vocabulary.sent-hidden-states",
                  Pile::kTemporary, ElementType::kFloat32);
  v.gradient = slot("output layer", "gradient of the input, summed over the stages",
                    "vocabulary.output-gradient", Pile::kTemporary, style_.residual);

  // This rank's rows, as if the stages were tensor ranks.
  v.style = style_;
  v.style.tensor = job_.parallel.pipeline;
  v.style.sequence_parallel = false;
  v.sizes = sizes_;
  v.sizes.tensor = Workbook<N>::symbol("p", job_.parallel.pipeline);
  v.lookup.composer =
      std::make_unique<Composer<N>>(book_, v.style, v.sizes, model.embedding_parameters);
  {
    Graph<N>& graph = v.lookup.composer->graph;
    v.rows = slot("embedding", "rows of the tokens", "vocabulary.lookup", Pile::kTemporary,
                  style_.residual);
    const ValueId ids = graph.input(ids_, sizes_.tokens, ElementType::kInt64, false, false);
    const ValueId y = compose_lookup(*v.lookup.composer, model, ids);
    graph.result(y, v.rows);
    graph.gradient_slot(y, hidden_gradient_);
    play(v.lookup);
  }
  v.output.composer = std::make_unique<Composer<N>>(book_, v.style, v.sizes, model.head_parameters);
  {
    Graph<N>& graph = v.output.composer->graph;
    const ValueId x = graph.input(v.input, hidden, style_.residual, !gradient_in_forward, true);
    compose_vocabulary_output(*v.output.composer, model, x, gradient_in_forward,
                              job_.parallel.vocabulary == VocabularyLayers::kInterlaced);
    if (!gradient_in_forward) graph.gradient_slot(x, v.gradient);
    play(v.output);
  }

  // The last stage's end, and the first one's beginning.
  head_.composer = std::make_unique<Composer<N>>(book_, style_, sizes_, model.head_parameters);
  {
    Graph<N>& graph = head_.composer->graph;
    const ValueId x = graph.input(hidden_, hidden, style_.residual, true, true);
    const ValueId y = compose_final_norm(*head_.composer, model, x);
    graph.result(y, hidden_);
    graph.gradient_slot(x, hidden_gradient_);
    graph.gradient_slot(y, gradient_in_forward ? v.output.lingering.front() : v.gradient);
    if (!v_half()) graph.borrow_result_gradient();
    play(head_);
  }
  embedding_.composer =
      std::make_unique<Composer<N>>(book_, style_, sizes_, model.embedding_parameters);
  {
    Graph<N>& graph = embedding_.composer->graph;
    v.summed = slot("embedding", "rows of the tokens, summed over the stages", "vocabulary.lookup",
                    Pile::kActivations, style_.residual);
    const ValueId x = graph.input(v.summed, hidden, style_.residual, true, false);
    const ValueId ids = graph.input(ids_, sizes_.tokens, ElementType::kInt64, false, false);
    const ValueId y = compose_behind_lookup(*embedding_.composer, model, x, ids);
    // Where nothing is made of them they are the first layer's input.
    if (y == x)
      v.summed = hidden_;
    else
      graph.result(y, hidden_);
    graph.gradient_slot(x, hidden_gradient_);
    graph.gradient_slot(y, hidden_gradient_);
    play(embedding_);
  }
}

template <class N>
void StagePrograms<N>::vocabulary_forward(const Stage<N>& stage, bool first,
                                          std::vector<Event>& lookup, std::vector<Event>& output) {
  Vocabulary& v = *graphs_->vocabulary;
  append(lookup, {{ids_, 1}, {labels_, 1}});
  append(lookup, v.lookup.forward);
  append(lookup, {{v.summed, 1}, {v.rows, -1}});
  if (!stage.embedding) lookup.push_back({v.summed, -1});

  if (job_.parallel.vocabulary == VocabularyLayers::kInterlaced) {
    if (!stage.head) output.push_back({v.input, 1});
  } else if (stage.head) {
    // Widened, and joined with the gradient of the loss.
    if (!v_half()) append(output, {{v.copied, 1}});
    append(output, {{v.sent, 1}, {v_half() ? v.given : v.copied, -1}});
    if (v_half()) append(output, {{v.copied, 1}, {v.input, 1}, {v.copied, -1}});
    append(output, {{v.sent, -1}});
  } else {
    const std::int32_t names = v_half() ? 1 : 2;
    if (v_half() || first) output.push_back({v.sent, names});
    append(output, {{v.copied, 1}, {v.input, 1}, {v.copied, -1}});
  }
  append(output, v.output.forward);
  // What forward makes of the gradient, summed over the stages in its first part.
  for (std::size_t part = 0; part < v.output.lingering.size(); ++part) {
    const bool goes = v_half() ? part > 0 : !first;
    if (goes) output.push_back({v.output.lingering[part], -1});
  }
  if (v_half() && !stage.head) output.push_back({v.sent, -1});
  append(output, {{ids_, -1}, {labels_, -1}});
}

template <class N>
void StagePrograms<N>::vocabulary_backward(const Stage<N>& stage, bool first,
                                           std::vector<Event>& lookup, std::vector<Event>& output) {
  Vocabulary& v = *graphs_->vocabulary;
  const GradientPolicy policy = engine_->gradient_policy(first);
  // Its last number is the gradient of the loss.
  if (v_half()) output.push_back({v.sent, 1});
  append(output, v.output.backward_under(policy, BackwardPart::kWhole));
  if (v_half()) output.push_back({v.sent, -1});
  if (v.output.lingering.empty()) {
    if (v_half() ? !stage.head : !first) output.push_back({v.gradient, -1});
  } else if (v_half() && !stage.head) {
    output.push_back({v.output.lingering.front(), -1});
  }
  if (!stage.embedding) lookup.push_back({hidden_gradient_, 1});
  append(lookup, v.lookup.backward_under(policy, BackwardPart::kWhole));
}

template <class N>
void StagePrograms<N>::vocabulary_ends(const Stage<N>& stage, std::vector<Event>& events) const {
  const Vocabulary& v = *graphs_->vocabulary;
  const bool gradient_in_forward = !v.output.lingering.empty();
  if (v_half()) return;
  if (job_.parallel.vocabulary != VocabularyLayers::kInterlaced && !stage.head)
    events.push_back({v.sent, -2});
  if (!gradient_in_forward) events.push_back({v.gradient, -1});
  for (const SlotId part : v.output.lingering) events.push_back({part, -1});
}

template <class N>
void StagePrograms<N>::build_vocabulary(const Stage<N>& stage, Parts& parts) {
  Program& program = book_.program;
  for (const bool first : {true, false}) {
    const std::size_t at = first ? 0 : 1;
    std::array<std::vector<Event>, 4> events;
    vocabulary_forward(stage, first, events[0], events[2]);
    vocabulary_backward(stage, first, events[1], events[3]);
    constexpr const char* kLabels[] = {"lookup", "lookup, backward", "output layer",
                                       "output layer, backward"};
    for (std::size_t step = 0; step < events.size(); ++step) {
      const Phase phase = step % 2 == 0 ? Phase::kForward : Phase::kBackward;
      const NodeId node = program.tape(phase, kLabels[step], events[step]);
      Vocabulary& v = *graphs_->vocabulary;
      note_launches(node, step < 2 ? v.lookup : v.output, step % 2 == 0, first);
      parts.vocabulary[step][at] = node;
    }
  }
}

template class StagePrograms<Checked>;
template class StagePrograms<Traced>;

}  // namespace steelyard
