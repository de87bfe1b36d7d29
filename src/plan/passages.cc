#include "plan/passages.h"

#include <algorithm>
#include <array>

#include "model/sequence.h"

namespace steelyard {
namespace {

void append(Swing& first, const Swing& then) {
  first.height = std::max(first.height, first.net + then.height);
  first.net += then.net;
}
void add(Swing& swing, std::int64_t bytes) {
  append(swing, {bytes, std::max<std::int64_t>(bytes, 0)});
}

}  // namespace

FormSwings::FormSwings(const Job& job, StagePrograms<Checked>& drawn)
    : known_(!job.trains_in_part() && job.recompute.mode != RecomputeMode::kModules &&
             !job.model->encoder_part),
      torch_(runs_on_torch_pipelining(job)),
      kinds_(kind_of_each_layer(*job.model)) {
  if (!known_) return;
  const bool again = recomputes_layers(job.recompute);
  layers_.resize(job.model->kinds.size() * 8);
  for (std::size_t kind = 0; kind < job.model->kinds.size(); ++kind)
    for (std::size_t edge = 0; edge < (torch_ ? 4U : 1U); ++edge)
      for (std::size_t repeat = 0; repeat < (again ? 2U : 1U); ++repeat)
        layers_[kind * 8 + repeat * 4 + edge] =
            drawn.swings_of_kind(kind, repeat == 1, (edge & 2U) != 0, (edge & 1U) != 0);
  embedding_ = drawn.swings_of_embedding();
  head_ = drawn.swings_of_head();
  hidden_ = drawn.hidden_bytes().value().value();
}

FormSwings::Passage FormSwings::passage_of(const Layout& layout, const Chunk& chunk) const {
  Passage passage;
  passage.waits = torch_ && chunk.embedding;
  passage.left = torch_ && !chunk.embedding && !chunk.hands_in ? hidden_ : 0;
  const bool lends_input = torch_ && !chunk.embedding, lends_gradient = torch_ && !chunk.head;
  const auto swings = [&](std::int64_t at) -> const UnitSwings& {
    return layer(static_cast<std::size_t>(kinds_[static_cast<std::size_t>(at)]),
                 runs_again(layout.recompute, layout.recomputed, at, at - chunk.from),
                 lends_input && at == chunk.from, lends_gradient && at + 1 == chunk.to);
  };
  if (chunk.embedding)
    append(passage.forward, embedding_.forward);
  else if (!torch_)
    add(passage.forward, hidden_);
  if (chunk.head) {
    append(passage.backward, head_.backward);
    append(passage.input, head_.input);
  } else if (!torch_) {
    add(passage.backward, hidden_);
    add(passage.input, hidden_);
  }
  for (std::int64_t at = chunk.from; at < chunk.to; ++at)
    append(passage.forward, swings(at).forward);
  for (std::int64_t at = chunk.to; at-- > chunk.from;) {
    append(passage.backward, swings(at).backward);
    append(passage.input, swings(at).input);
    append(passage.weight, swings(at).weight);
  }
  if (chunk.head)
    append(passage.forward, head_.forward);
  else if (!torch_ || chunk.hands_on)
    add(passage.forward, -hidden_);
  if (!chunk.embedding) add(passage.input, -hidden_);
  return passage;
}

FormSwings::Height FormSwings::height_of(const Layout& layout, const RankOrder& order,
                                         std::int64_t micro_batches,
                                         const std::vector<Chunk>& chunks) const {
  struct Turn {
    const Chunk& chunk;
    Passage passage;
    std::int64_t ended = 0;
    std::array<std::int64_t, 2> before{};  // a round of a stretch, a round of a run
    bool leaves = false;                   // gradients of what it received, to the next step
  };
  std::vector<Turn> turns;
  std::int64_t received = 0, gathered = 0;
  for (const Chunk& chunk : chunks) {
    turns.push_back({chunk, passage_of(layout, chunk)});
    gathered += chunk.gathered;
    // Buffers to receive in stand from load on, one for each micro-batch and direction.
    if (torch_)
      received += micro_batches * hidden_ * ((chunk.embedding ? 0 : 1) + (chunk.head ? 0 : 1));
  }
  std::int64_t now = received + gathered, most = now;
  const auto play_steps = [&](const StepRun& run) {
    for (const PipelineStep& step : run) {
      Turn& turn = turns[static_cast<std::size_t>(step.chunk)];
      const Passage& passage = turn.passage;
      if (step.kind == StepKind::kForward) {
        most = std::max(most, now + passage.forward.height);
        now += passage.forward.net;
      } else if (step.kind == StepKind::kInputBackward) {
        if (passage.waits) continue;
        most = std::max(most, now + passage.input.height);
        now += passage.input.net + passage.left;
        turn.leaves = true;
      } else {
        const bool whole = step.kind == StepKind::kBackward || passage.waits;
        most = std::max(most, now + (whole ? passage.backward : passage.weight).height);
        now -= passage.forward.net + (whole ? 0 : passage.input.net);
        if (turn.ended++ == 0) now += turn.chunk.gradients;
        most = std::max(most, now);
        if (turn.ended == micro_batches) now -= turn.chunk.gradients + turn.chunk.gathered;
      }
      most = std::max(most, now);
    }
  };
  // Rounds between the first and the last one all add the same.
  const auto play_rounds = [&](std::size_t of, std::int64_t rounds, const auto& play) {
    play();
    if (rounds == 1) return;
    if (rounds > 2) {
      const std::int64_t before = now;
      for (Turn& turn : turns) turn.before[of] = turn.ended;
      play();
      const std::int64_t more = rounds - 3;
      now += more * (now - before);
      for (Turn& turn : turns) turn.ended += more * (turn.ended - turn.before[of]);
    }
    play();
  };
  for (const Stretch& stretch : order.stretches())
    play_rounds(0, stretch.times, [&] {
      for (const StepRun& run : stretch.runs) play_rounds(1, run.times, [&] { play_steps(run); });
    });
  std::int64_t resident = received;
  for (const Turn& turn : turns)
    if (turn.leaves) resident += micro_batches * turn.passage.left;
  return {most, resident};
}

}  // namespace steelyard
