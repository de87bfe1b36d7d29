// For tests of engines: a job from a few lines of a run file, its stages built and judged.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "document/read.h"
#include "engine/stage_program.h"
#include "job/read.h"
#include "ledger/replay.h"

namespace steelyard {

inline Job job_of(const std::string& run_file) {
  const auto document = read_toml(run_file, "run.toml");
  if (!document) throw std::runtime_error(document.error().front().message);
  auto job = read_job(*document);
  if (!job) throw std::runtime_error(job.error().front().message + "\n" + run_file);
  return *std::move(job);
}

// Every stage: the judge's heights are those of the spans, nothing is freed that is not alive, and what the step
// leaves is what it found.
inline void expect_sound(const Job& job) {
  StagePrograms<Checked> stages(job);
  for (std::int64_t stage = 0; stage < job.parallel.pipeline; ++stage) {
    const NodeId root = stages.build(stage).root;
    const Replay judged = replay(stages.program(), root);
    const Span& span = stages.program().span(root);
    EXPECT_EQ(judged.fault, "");
    EXPECT_EQ(judged.height, span.change);
    EXPECT_EQ(judged.peak, span.peak);
    std::vector<Event> held;
    stages.engine().load(stages.stage_of(stage), held);
    stages.hold_buffers(stages.stage_of(stage), held);
    stages.engine().hold_forward_workspaces(held);
    stages.engine().held_from_first_forward(stages.stage_of(stage), held);
    stages.engine().hold_backward_workspaces(held);
    stages.engine().left_by_first_backward(stages.stage_of(stage), held);
    stages.engine().left_by_first_step(stages.stage_of(stage), held);
    stages.hold_received(stages.stage_of(stage), held);
    stages.hold_full_buffers(stages.stage_of(stage), 1, held);
    stages.hold_gradients_of_received(stage, held);
    std::vector<Event> states;
    stages.engine().states(stages.stage_of(stage), states);
    stages.hold_states_of_backward(stages.stage_of(stage), states);
    const auto late = stages.engine().states_behind_largest(stages.stage_of(stage), states);
    for (const auto* some : {&std::as_const(states), &late})
      held.insert(held.end(), some->begin(), some->end());
    std::vector<std::int64_t> expected(stages.program().slot_count());
    for (const Event& event : held) expected[static_cast<std::size_t>(event.slot)] += event.count;
    for (std::size_t slot = 0; slot < expected.size(); ++slot) {
      const Slot& leaked = stages.program().slot_at(static_cast<SlotId>(slot));
      EXPECT_EQ(judged.alive[slot], expected[slot])
          << leaked.owner << " " << leaked.name << " on stage " << stage;
    }
  }
}

// Two copies of a rotary embedding's frequencies: all that a model of transformers holds beside parameters and states.
constexpr std::int64_t kRotaryFrequencies = 2 * 512;

// Bytes that the first stage holds between steps.
inline Piles resident(const Job& job, std::int64_t stage = 0) {
  StagePrograms<Checked> stages(job);
  const NodeId root = stages.build(stage).root;
  return stages.program().span(root).net;
}

}  // namespace steelyard
