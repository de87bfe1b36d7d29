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

// Parts of a line, breadth first: when the first and the last micro-batch leave the part that was asked last.
class BreadthFirstLine {
 public:
  explicit BreadthFirstLine(const PipelineShape& shape)
      : free_(static_cast<std::size_t>(shape.ranks), 0.0),
        others_(static_cast<double>(shape.micro_batches - 1)) {}

  void pass(std::size_t part, double seconds) {
    double& free = free_[part % free_.size()];
    first_ = std::max(first_, free) + seconds;
    last_ = std::max(last_ + seconds, first_ + others_ * seconds);
    free = last_;
  }
  // Backward: everything has arrived.
  void turn() { first_ = last_ = 0; }
  double end() const { return *std::max_element(free_.begin(), free_.end()); }

 private:
  std::vector<double> free_;  // when each rank is, by its last chunk so far
  const double others_;
  double first_ = 0, last_ = 0;
};

double breadth_first_seconds(const PipelineShape& shape, const std::vector<PartSeconds>& parts) {
  BreadthFirstLine line(shape);
  for (std::size_t part = 0; part < parts.size(); ++part) line.pass(part, parts[part].forward);
  line.turn();
  for (std::size_t part = parts.size(); part-- > 0;)
    line.pass(part, parts[part].input + parts[part].weight);
  return line.end();
}

// Orders repeat after two micro-batches at most; a round of all ranks is more than that and even.
double played_rounds_seconds(const PipelineOrder& order, const PipelineShape& shape,
                             const std::vector<PartSeconds>& parts) {
  const std::int64_t round = 2 * shape.ranks;
  const std::int64_t few = 2 * round + shape.micro_batches % round;
  if (shape.micro_batches <= few + round) return simulated_seconds(order, shape, parts);
  PipelineShape shorter = shape;
  shorter.micro_batches = few;
  const double first = simulated_seconds(order, shorter, parts);
  shorter.micro_batches = few + round;
  const double second = simulated_seconds(order, shorter, parts);
  const std::int64_t rounds = (shape.micro_batches - few) / round;
  return first + static_cast<double>(rounds) * (second - first);
}

}  // namespace

bool has_closed_form(PipelineSchedule schedule) {
  return schedule == PipelineSchedule::kGPipe ||
         schedule == PipelineSchedule::kOneForwardOneBackward ||
         schedule == PipelineSchedule::kInterleaved ||
         schedule == PipelineSchedule::kLoopedBreadthFirst;
}

bool sends_beside_compute(bool on_torch, PipelineSchedule schedule) {
  if (on_torch) return false;
  switch (schedule) {
    case PipelineSchedule::kGPipe:
    case PipelineSchedule::kOneForwardOneBackward:
    case PipelineSchedule::kLoopedBreadthFirst:
      return false;
    default:
      return true;
  }
}

double least_pipeline_seconds(const PipelineOrder& order, const PipelineShape& shape,
                              const std::vector<PartSeconds>& parts) {
  const auto times = static_cast<double>(micro_batches_of_chunk(order.placement, shape));
  std::vector<PartSeconds> before = {{}};
  for (const PartSeconds& part : parts)
    before.push_back({before.back().forward + part.forward, before.back().input + part.input, 0});
  double most = 0;
  for (std::int64_t rank = 0; rank < shape.ranks; ++rank) {
    PartSeconds here;
    std::size_t first = parts.size();
    for (int chunk = 0; chunk < static_cast<int>(shape.chunks); ++chunk) {
      const auto at = static_cast<std::size_t>(part_of(order.placement, shape, rank, chunk).index);
      first = std::min(first, at);
      here.forward += parts[at].forward;
      here.input += parts[at].input;
      here.weight += parts[at].weight;
    }
    const double both_ways = here.forward + here.input;
    most = std::max({most, before[first].forward + times * here.total(),
                     before[first].forward + times * both_ways + before[first].input});
  }
  return most;
}

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
  if (order.schedule == PipelineSchedule::kLoopedBreadthFirst)
    return breadth_first_seconds(shape, parts);
  if (!has_closed_form(order.schedule) || shape.vocabulary != VocabularyLayers::kAtTheEnds)
    return std::max(played_rounds_seconds(order, shape, parts),
                    least_pipeline_seconds(order, shape, parts));
  double slowest = 0, all = 0;
  for (std::int64_t rank = 0; rank < shape.ranks; ++rank) {
    const double here = seconds_on(order, shape, parts, rank);
    slowest = std::max(slowest, here);
    all += here;
  }
  const auto micro_batches = static_cast<double>(shape.micro_batches);
  return micro_batches * slowest + (all - slowest) / static_cast<double>(shape.chunks);
}

}  // namespace steelyard
