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

InFlight in_flight(const RankOrder& order, std::int64_t chunks) {
  InFlight result;
  result.by_chunk.assign(static_cast<std::size_t>(chunks), 0);
  std::vector<std::int64_t> alive(static_cast<std::size_t>(chunks), 0);
  std::int64_t together = 0;
  std::vector<bool> has_gradients(static_cast<std::size_t>(chunks), false);
  std::int64_t without = chunks;
  const auto play = [&](const Stretch& stretch) {
    for (const PipelineStep& step : stretch.steps) {
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
  for (const Stretch& stretch : order.stretches()) {
    if (stretch.times > 1) {
      // Rounds are alike but for what they add: the first and the last one hold every maximum.
      const std::vector<std::int64_t> before = alive;
      const std::int64_t together_before = together;
      play(stretch);
      const std::int64_t between = stretch.times - 2;
      for (std::size_t chunk = 0; chunk < alive.size(); ++chunk)
        alive[chunk] += between * (alive[chunk] - before[chunk]);
      together += between * (together - together_before);
    }
    play(stretch);
  }
  return result;
}

}  // namespace steelyard
