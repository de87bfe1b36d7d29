// What the ranks of a pipeline do, and in which order: the steps of one rank, folded where they repeat.
//
//   1f1b, 4 ranks, 6 micro-batches; time runs to the right, a dot is a bubble
//
//     rank 0   F0 F1 F2 F3 .  .  .  B0 F4 B1 F5 B2 .  B3 .  B4 .  B5
//     rank 1   .  F0 F1 F2 .  .  B0 F3 B1 F4 B2 F5 B3 .  B4 .  B5
//     rank 2   .  .  F0 F1 .  B0 F2 B1 F3 B2 F4 B3 F5 B4 .  B5
//     rank 3   .  .  .  F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5
//
//   rank 0 as a RankOrder:   warm-up F x 3,  micro-batch (F B) x 3,  drain B x 3
//
// A step names no micro-batch: each chunk of a rank takes them in turn, whatever the kind of step. So a rank's order
// costs as much for 512 micro-batches as for eight. What a rank keeps alive follows from replaying it; the times, and
// whether it can run at all, from schedule/simulate.h. One file of schedule/orders for each order.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "schedule/pipeline_schedule.h"

namespace steelyard {

enum class StepKind : std::uint8_t {
  kForward,
  kBackward,        // both gradients at once
  kInputBackward,   // the gradient that the stage before waits for; what the weights' needs stays
  kWeightBackward,  // the gradients of the weights, which nobody waits for
  // Where the vocabulary's layers are divided over the ranks (VocabularyLayers), this rank's part of them; of no chunk.
  kLookup,          // of tokens, summed for the first part of the model
  kLookupBackward,  // from the gradient that it has handed on
  kOutput,          // the output layer and the loss, of what the last part has handed on
  kOutputBackward,
};
constexpr bool is_of_vocabulary(StepKind kind) { return kind >= StepKind::kLookup; }

// `chunk`: which of the rank's chunks of layers; most orders have one.
struct PipelineStep {
  StepKind kind = StepKind::kForward;
  int chunk = 0;
  friend bool operator==(const PipelineStep&, const PipelineStep&) = default;
};
constexpr PipelineStep forward_of(int chunk) { return {StepKind::kForward, chunk}; }
constexpr PipelineStep backward_of(int chunk) { return {StepKind::kBackward, chunk}; }
constexpr PipelineStep input_backward_of(int chunk) { return {StepKind::kInputBackward, chunk}; }
constexpr PipelineStep weight_backward_of(int chunk) { return {StepKind::kWeightBackward, chunk}; }

// A few steps in turn, `times` over: what a rank does as long as no chunk gives way to the next.
struct StepRun {
  std::array<PipelineStep, 3> steps{};
  std::uint8_t count = 0;
  std::int64_t times = 1;

  void put(PipelineStep step) { steps[count++] = step; }
  const PipelineStep* begin() const { return steps.data(); }
  const PipelineStep* end() const { return steps.data() + count; }
  bool has_same_steps(const StepRun& other) const {
    return count == other.count && steps == other.steps;
  }
};

struct Stretch {
  const char* label = "";  // "warm-up", "micro-batch", "drain"
  std::vector<StepRun> runs;
  std::int64_t times = 1;
  std::vector<PipelineStep> steps() const;  // of one round, one by one
};

class RankOrder {
 public:
  // `steps`, `times` over; nothing where there are none.
  void add(const char* label, const std::vector<PipelineStep>& steps, std::int64_t times = 1);
  // The steps of `count` units, unit after unit, where unit k + period has the steps of unit k. `run_of(k)`: those of unit k,
  // and of how many from it on that are alike.
  template <class RunOf>
  void run(const char* label, std::int64_t count, std::int64_t period, RunOf run_of) {
    const std::int64_t rounds = count / period;
    const auto add_between = [&](std::int64_t from, std::int64_t until, std::int64_t times) {
      if (from >= until) return;
      std::vector<StepRun>& runs = stretches_.emplace_back(Stretch{label, {}, times}).runs;
      for (std::int64_t unit = from; unit < until; unit += runs.back().times) {
        runs.push_back(run_of(unit));
        runs.back().times = std::min(runs.back().times, until - unit);
      }
    };
    add_between(0, std::min(period, count), std::max<std::int64_t>(rounds, 1));
    if (rounds >= 1) add_between(rounds * period, count, 1);
  }
  const std::vector<Stretch>& stretches() const { return stretches_; }

 private:
  std::vector<Stretch> stretches_;
};

struct PipelineShape {
  std::int64_t ranks = 1;
  std::int64_t chunks = 1;  // of layers, on each rank
  std::int64_t micro_batches = 1;
  std::int64_t group =
      1;  // interleaving: micro-batches that a chunk takes before the next one does
  VocabularyLayers vocabulary = VocabularyLayers::kAtTheEnds;
};

// Which stretch of the model a chunk is. A model is cut into `ranks x chunks` parts, counted from the embedding.
enum class Placement : std::uint8_t {
  kLoop,  // chunk c of rank r is part c·ranks + r
  kV,     // two chunks: down the ranks, and back up: part r and part 2·ranks - 1 - r
  kTwoWays,  // two whole pipelines through the same ranks, from both ends: part r and part ranks - 1 - r
};

struct Part {
  std::int64_t pipeline = 0;  // kTwoWays: which of the two
  std::int64_t index = 0;     // from the embedding
};
inline Part part_of(Placement placement, const PipelineShape& shape, std::int64_t rank, int chunk) {
  switch (placement) {
    case Placement::kV:
      return {0, chunk == 0 ? rank : 2 * shape.ranks - 1 - rank};
    case Placement::kTwoWays: {
      // Chunk 0 is of the pipeline whose embedding is nearer.
      const bool reversed = (rank >= shape.ranks / 2) != (chunk == 1);
      return {reversed ? 1 : 0, reversed ? shape.ranks - 1 - rank : rank};
    }
    default:
      return {0, chunk * shape.ranks + rank};
  }
}
inline std::int64_t parts_in_line(Placement placement, const PipelineShape& shape) {
  return placement == Placement::kTwoWays ? shape.ranks : shape.ranks * shape.chunks;
}
// Micro-batches that one chunk sees.
inline std::int64_t micro_batches_of_chunk(Placement placement, const PipelineShape& shape) {
  return placement == Placement::kTwoWays ? shape.micro_batches / 2 : shape.micro_batches;
}

// Micro-batches whose forward has run and whose backward, weights included, has not: the most at once, over all chunks
// of a rank together and by chunk; and the most from when every chunk has made its weights' gradients.
struct InFlight {
  std::int64_t most = 0, most_beside_gradients = 0;
  std::vector<std::int64_t> by_chunk;
};
InFlight in_flight(const RankOrder& order, std::int64_t chunks);

}  // namespace steelyard
