#include "cost/pipeline_time.h"

#include <algorithm>
#include <cmath>

#include "schedule/simulate.h"

namespace steelyard {

namespace {

// The simulation counts whole units: a thousandth of a nanosecond.
constexpr double kUnit = 1e-12;

double seconds_on(const PipelineOrder& order, const PipelineShape& shape,
                  const std::vector<PartSeconds>& parts, std::int64_t rank) {
  double sum = 0;
  for (int chunk = 0; chunk < static_cast<int>(shape.chunks); ++chunk)
    sum +=
        parts[static_cast<std::size_t>(part_of(order.placement, shape, rank, chunk).index)].total();
  return sum;
}

std::vector<StepTimes> times_of(const std::vector<PartSeconds>& parts) {
  std::vector<StepTimes> times;
  const auto units = [](double seconds) { return std::llround(seconds / kUnit); };
  for (const PartSeconds& part : parts)
    times.push_back({units(part.forward), units(part.input), units(part.weight)});
  return times;
}

bool has_closed_form(PipelineSchedule schedule) {
  return schedule == PipelineSchedule::kGPipe ||
         schedule == PipelineSchedule::kOneForwardOneBackward ||
         schedule == PipelineSchedule::kInterleaved;
}

}  // namespace

double simulated_seconds(const PipelineOrder& order, const PipelineShape& shape,
                         const std::vector<PartSeconds>& parts) {
  return static_cast<double>(simulate(order, shape, times_of(parts)).time) * kUnit;
}

std::vector<PlayedSeconds> played_seconds(const PipelineOrder& order, const PipelineShape& shape,
                                          const std::vector<PartSeconds>& parts) {
  std::vector<PlayedStep> steps;
  simulate(order, shape, times_of(parts), &steps);
  std::vector<PlayedSeconds> played;
  played.reserve(steps.size());
  for (const PlayedStep& step : steps)
    played.push_back({step.rank, step.micro_batch, step.step,
                      static_cast<double>(step.start) * kUnit,
                      static_cast<double>(step.end) * kUnit});
  return played;
}

double pipeline_seconds(const PipelineOrder& order, const PipelineShape& shape,
                        const std::vector<PartSeconds>& parts) {
  const auto micro_batches = static_cast<double>(shape.micro_batches);
  if (has_closed_form(order.schedule)) {
    double slowest = 0, all = 0;
    for (std::int64_t rank = 0; rank < shape.ranks; ++rank) {
      const double here = seconds_on(order, shape, parts, rank);
      slowest = std::max(slowest, here);
      all += here;
    }
    return micro_batches * slowest + (all - slowest) / static_cast<double>(shape.chunks);
  }
  // Orders repeat after two micro-batches at most; a round of all ranks is more than that and even.
  const std::int64_t round = 2 * shape.ranks;
  const std::int64_t few = 2 * round + shape.micro_batches % round;
  if (shape.micro_batches <= few + round) return simulated_seconds(order, shape, parts);
  PipelineShape shorter = shape;
  shorter.micro_batches = few;
  const double first = simulated_seconds(order, shorter, parts);
  shorter.micro_batches = few + round;
  const double second = simulated_seconds(order, shorter, parts);
  const auto rounds = static_cast<double>((shape.micro_batches - few) / round);
  return first + rounds * (second - first);
}

}  // namespace steelyard
