#include "schedule/order.h"

namespace steelyard {

namespace {

// Forward adds one, the step that lets go takes one.
std::int64_t change_of(StepKind kind) {
  switch (kind) {
    case StepKind::kForward:
      return 1;
    case StepKind::kBackward:
    case StepKind::kWeightBackward:
      return -1;
    default:
      return 0;
  }
}

}  // namespace

std::vector<PipelineStep> Stretch::steps() const {
  std::vector<PipelineStep> all;
  for (const StepRun& run : runs)
    for (std::int64_t time = 0; time < run.times; ++time)
      all.insert(all.end(), run.begin(), run.end());
  return all;
}

void RankOrder::add(const char* label, const std::vector<PipelineStep>& steps, std::int64_t times) {
  if (times <= 0 || steps.empty()) return;
  std::vector<StepRun>& runs = stretches_.emplace_back(Stretch{label, {}, times}).runs;
  for (const PipelineStep& step : steps) {
    StepRun run;
    run.put(step);
    if (!runs.empty() && runs.back().has_same_steps(run))
      ++runs.back().times;
    else
      runs.push_back(run);
  }
}

InFlight in_flight(const RankOrder& order, std::int64_t chunks) {
  InFlight result;
  result.by_chunk.assign(static_cast<std::size_t>(chunks), 0);
  std::vector<std::int64_t> alive(static_cast<std::size_t>(chunks), 0);
  std::int64_t together = 0;
  std::vector<bool> has_gradients(static_cast<std::size_t>(chunks), false);
  std::int64_t without = chunks;
  const auto play_steps = [&](const StepRun& run) {
    for (const PipelineStep& step : run) {
      std::int64_t& of_chunk = alive[static_cast<std::size_t>(step.chunk)];
      of_chunk += change_of(step.kind);
      together += change_of(step.kind);
      std::int64_t& most = result.by_chunk[static_cast<std::size_t>(step.chunk)];
      most = std::max(most, of_chunk);
      result.most = std::max(result.most, together);
      const auto chunk = static_cast<std::size_t>(step.chunk);
      if (change_of(step.kind) < 0 && !has_gradients[chunk]) {
        has_gradients[chunk] = true;
        --without;
      }
      if (without == 0)
        result.most_beside_gradients = std::max(result.most_beside_gradients, together);
    }
  };
  // Rounds are alike but for what they add: the first and the last one hold every maximum.
  const auto play_rounds = [&](std::int64_t rounds, const auto& play) {
    if (rounds > 1) {
      const std::vector<std::int64_t> before = alive;
      const std::int64_t together_before = together;
      play();
      const std::int64_t between = rounds - 2;
      for (std::size_t chunk = 0; chunk < alive.size(); ++chunk)
        alive[chunk] += between * (alive[chunk] - before[chunk]);
      together += between * (together - together_before);
    }
    play();
  };
  for (const Stretch& stretch : order.stretches())
    play_rounds(stretch.times, [&] {
      for (const StepRun& run : stretch.runs) play_rounds(run.times, [&] { play_steps(run); });
    });
  return result;
}

}  // namespace steelyard
