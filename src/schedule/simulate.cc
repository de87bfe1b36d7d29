#include "schedule/simulate.h"

#include <array>

namespace steelyard {

namespace {

constexpr std::int64_t kNever = -1;
constexpr std::size_t kVocabularySteps = 4;
std::size_t place_of(StepKind kind) {
  return static_cast<std::size_t>(kind) - static_cast<std::size_t>(StepKind::kLookup);
}

struct Done {
  std::int64_t forward = kNever, input = kNever, weight = kNever;  // when it ended
};

// A step that all ranks run: what waits for it waits for the last of them.
struct Everywhere {
  std::int64_t ranks = 0, last = 0;
  void ran(std::int64_t end) {
    ++ranks;
    last = std::max(last, end);
  }
};

struct Rank {
  struct Stretch {
    std::vector<PipelineStep> steps;
    std::int64_t times = 1;
  };
  std::vector<Stretch> order;
  std::size_t stretch = 0, step = 0;
  std::int64_t round = 0;
  std::int64_t first = kNever, now = 0, busy = 0;
  // Steps of each kind that each chunk has run: the next one's micro-batch.
  std::vector<std::array<std::int64_t, 3>> runs;
  std::array<std::int64_t, kVocabularySteps> vocabulary_runs{};

  const PipelineStep* next() const {
    if (stretch == order.size()) return nullptr;
    return &order[stretch].steps[step];
  }
  void advance() {
    if (++step < order[stretch].steps.size()) return;
    step = 0;
    if (++round < order[stretch].times) return;
    round = 0;
    ++stretch;
  }
};

class Simulator {
 public:
  Simulator(const PipelineOrder& order, const PipelineShape& shape,
            const std::vector<StepTimes>& times, std::vector<PlayedStep>* played)
      : order_(order),
        shape_(shape),
        times_(times),
        played_(played),
        parts_(parts_in_line(order.placement, shape)),
        micro_batches_(micro_batches_of_chunk(order.placement, shape)) {
    for (std::vector<Everywhere>& step : everywhere_)
      step.resize(static_cast<std::size_t>(
          shape.vocabulary == VocabularyLayers::kAtTheEnds ? 0 : micro_batches_));
    const std::int64_t pipelines = order.placement == Placement::kTwoWays ? 2 : 1;
    done_.resize(static_cast<std::size_t>(pipelines * parts_ * micro_batches_));
    ranks_.resize(static_cast<std::size_t>(shape.ranks));
    for (std::int64_t rank = 0; rank < shape.ranks; ++rank) {
      Rank& made = ranks_[static_cast<std::size_t>(rank)];
      const RankOrder folded = order.rank_order(shape, rank);
      for (const Stretch& stretch : folded.stretches())
        made.order.push_back({stretch.steps(), stretch.times});
      made.runs.resize(static_cast<std::size_t>(shape.chunks));
    }
  }

  Simulation run() {
    Simulation result;
    for (bool progress = true; progress && result.fault.empty();) {
      progress = false;
      for (std::size_t rank = 0; rank < ranks_.size() && result.fault.empty(); ++rank)
        while (step(static_cast<std::int64_t>(rank), result.fault)) progress = true;
    }
    for (std::size_t index = 0; index < ranks_.size(); ++index) {
      const Rank& rank = ranks_[index];
      result.time = std::max(result.time, rank.now);
      result.bubble = std::max(result.bubble, rank.now - rank.first - rank.busy);
      if (result.fault.empty() && rank.next() != nullptr)
        result.fault = "rank " + std::to_string(index) + " waits for ever";
    }
    if (!result.fault.empty()) return result;
    for (const Done& done : done_)
      if (done.forward == kNever || done.input == kNever || done.weight == kNever)
        result.fault = "a micro-batch is left out";
    for (const std::vector<Everywhere>& step : everywhere_)
      for (const Everywhere& each : step)
        if (each.ranks != shape_.ranks) result.fault = "a micro-batch's vocabulary is left out";
    return result;
  }

 private:
  Done& at(Part part, std::int64_t micro_batch) {
    return done_[static_cast<std::size_t>((part.pipeline * parts_ + part.index) * micro_batches_ +
                                          micro_batch)];
  }

  Everywhere& everywhere(StepKind kind, std::int64_t micro_batch) {
    return everywhere_[place_of(kind)][static_cast<std::size_t>(micro_batch)];
  }
  std::int64_t after_all(StepKind kind, std::int64_t micro_batch) {
    const Everywhere& step = everywhere(kind, micro_batch);
    return step.ranks == shape_.ranks ? step.last : kNever;
  }
  // When a step of the vocabulary's layers can begin.
  std::int64_t ready(StepKind kind, std::int64_t micro_batch) {
    switch (kind) {
      case StepKind::kOutput:
        return at({0, parts_ - 1}, micro_batch).forward;
      case StepKind::kOutputBackward:
        return after_all(StepKind::kOutput, micro_batch);
      case StepKind::kLookupBackward:
        return at({0, 0}, micro_batch).input;
      default:
        return 0;
    }
  }
  bool step_of_vocabulary(std::int64_t index, Rank& rank, const PipelineStep& next,
                          std::string& fault) {
    const std::int64_t micro_batch = rank.vocabulary_runs[place_of(next.kind)];
    if (micro_batch >= micro_batches_) {
      fault = "rank " + std::to_string(index) + " runs a micro-batch's vocabulary twice";
      return false;
    }
    const std::int64_t begin = ready(next.kind, micro_batch);
    if (begin == kNever) return false;
    const bool forward = next.kind == StepKind::kLookup || next.kind == StepKind::kOutput;
    const bool of_output = next.kind >= StepKind::kOutput;
    // The times of the lookup and of the output layer stand behind those of the parts.
    const auto place = static_cast<std::size_t>(parts_ + (of_output ? 1 : 0));
    const StepTimes times = place < times_.size() ? times_[place] : StepTimes{0, 0, 0};
    const std::int64_t duration = forward ? times.forward : times.input + times.weight;
    const std::int64_t start = std::max(begin, rank.now);
    if (rank.first == kNever) rank.first = start;
    rank.now = start + duration;
    rank.busy += duration;
    if (played_ != nullptr) played_->push_back({index, micro_batch, next, start, rank.now});
    everywhere(next.kind, micro_batch).ran(rank.now);
    ++rank.vocabulary_runs[place_of(next.kind)];
    rank.advance();
    return true;
  }

  // Runs the rank's next step when what it waits for is there.
  bool step(std::int64_t index, std::string& fault) {
    Rank& rank = ranks_[static_cast<std::size_t>(index)];
    const PipelineStep* next = rank.next();
    if (next == nullptr) return false;
    if (is_of_vocabulary(next->kind)) return step_of_vocabulary(index, rank, *next, fault);
    const bool forward = next->kind == StepKind::kForward;
    const bool input = next->kind == StepKind::kBackward || next->kind == StepKind::kInputBackward;
    const bool weight =
        next->kind == StepKind::kBackward || next->kind == StepKind::kWeightBackward;
    auto& runs = rank.runs[static_cast<std::size_t>(next->chunk)];
    const std::int64_t turn = runs[forward ? 0 : input ? 1 : 2];
    if (turn >= micro_batches_) {
      fault = "rank " + std::to_string(index) + " runs a micro-batch twice";
      return false;
    }
    const std::int64_t micro_batch =
        order_.backward_from_last && !forward ? micro_batches_ - 1 - turn : turn;
    const Part part = part_of(order_.placement, shape_, index, next->chunk);
    Done& done = at(part, micro_batch);
    std::int64_t ready = 0;
    if (forward && part.index > 0) ready = at({part.pipeline, part.index - 1}, micro_batch).forward;
    if (input && part.index < parts_ - 1)
      ready = at({part.pipeline, part.index + 1}, micro_batch).input;
    if (shape_.vocabulary != VocabularyLayers::kAtTheEnds) {
      if (forward && part.index == 0) ready = after_all(StepKind::kLookup, micro_batch);
      if (input && part.index == parts_ - 1)
        ready = after_all(shape_.vocabulary == VocabularyLayers::kOneExchange
                              ? StepKind::kOutput
                              : StepKind::kOutputBackward,
                          micro_batch);
    }
    const bool before = forward || (input ? done.forward : done.input) != kNever;
    if (ready == kNever || !before) return false;
    const std::int64_t start = std::max(ready, rank.now);
    const StepTimes& times = times_[static_cast<std::size_t>(part.index)];
    const std::int64_t duration =
        (forward ? times.forward : 0) + (input ? times.input : 0) + (weight ? times.weight : 0);
    if (rank.first == kNever) rank.first = start;
    rank.now = start + duration;
    rank.busy += duration;
    if (played_ != nullptr) played_->push_back({index, micro_batch, *next, start, rank.now});
    if (forward) done.forward = rank.now;
    // The stage before needs the gradient of the input; a whole backward hands it over at its end.
    if (input) done.input = rank.now;
    if (weight) done.weight = rank.now;
    if (forward) ++runs[0];
    if (input) ++runs[1];
    if (weight) ++runs[2];
    rank.advance();
    return true;
  }

  const PipelineOrder& order_;
  const PipelineShape shape_;
  const std::vector<StepTimes>& times_;
  std::vector<PlayedStep>* played_;
  const std::int64_t parts_, micro_batches_;
  std::vector<Done> done_;
  std::array<std::vector<Everywhere>, kVocabularySteps> everywhere_;
  std::vector<Rank> ranks_;
};

}  // namespace

Simulation simulate(const PipelineOrder& order, const PipelineShape& shape, StepTimes times) {
  const auto parts = static_cast<std::size_t>(parts_in_line(order.placement, shape));
  return simulate(order, shape, std::vector<StepTimes>(parts, times));
}

Simulation simulate(const PipelineOrder& order, const PipelineShape& shape,
                    const std::vector<StepTimes>& parts, std::vector<PlayedStep>* played) {
  return Simulator(order, shape, parts, played).run();
}

}  // namespace steelyard
