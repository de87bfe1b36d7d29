// The answer: every pile of every distinct rank in every phase, and the moment of the peak.
//
//   peak: rank 0, backward, 74.2 GiB allocated, 76.0 reserved, 77.1 on the device (75.4 to 79.0)
//   piles at that moment: parameters 3.74 + activations 52.6 + ... = allocated, to the byte
//
// JSON form: steelyard.prediction/1 (report/json).
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cost/step_time.h"
#include "engine/host_memory.h"
#include "job/job.h"
#include "ledger/pile.h"
#include "quantity/quantity.h"

namespace steelyard {

enum class Verdict : std::uint8_t { kFits, kTight, kDoesNotFit };
std::string_view name_of(Verdict verdict);  // "fits", "tight", "does_not_fit"

struct PhasePrediction {
  Phase phase = Phase::kForward;
  Bytes allocated{};  // torch.cuda.max_memory_allocated within the phase
  Bytes reserved{};   // max_memory_reserved within the phase
  Piles piles;        // alive at the phase's peak; sums to `allocated`
  Bytes slack{};      // reserved - allocated
  Bytes runtime{};    // outside the allocator: context, NCCL
};

// The first step stands lower until its optimizer makes the states: out of memory may come with the second one.
struct FirstStep {
  Phase phase = Phase::kForward;  // of the peak
  Bytes allocated{}, reserved{}, device{};
  std::vector<PhasePrediction> phases;  // forward, backward, optimizer
};

struct RankPrediction {
  std::int64_t rank = 0;          // smallest global rank of this kind
  std::int64_t pipeline = 0;      // coordinates
  std::int64_t replicas = 1;      // ranks with exactly these numbers
  Phase phase = Phase::kForward;  // of the peak
  Bytes allocated{}, reserved{}, device{};
  Bytes resident{};                     // held between steps in the steady state
  std::vector<PhasePrediction> phases;  // of a later step, load and checkpoint
  FirstStep first_step;
  bool estimated = false;  // what it reserves is: another rank is the fullest
};

struct PeakPrediction {
  std::int64_t rank = 0;
  std::int64_t pipeline = 0;
  Phase phase = Phase::kForward;
  Bytes allocated{}, reserved{}, device{};
  Bytes low{}, high{};  // band of `device`
};
// The one place where it is decided: what certainly is too much does not fit, what certainly is not fits.
Verdict verdict_of(const PeakPrediction& peak, Bytes usable);

// One thing alive at the peak, or one row of a derivation. `formula` and the like are filled by explain() only.
struct Holding {
  Pile pile = Pile::kActivations;
  std::string owner;       // "layers.*.mlp", "embedding", "loss"
  std::string name;        // "gate"
  std::string rule;        // "op.linear.saved-input"
  std::int64_t count = 1;  // equal tensors alive
  Bytes each{};            // rounded as the allocator does
  Bytes total{};           // count x each
};

struct Moment {
  Phase phase = Phase::kForward;
  std::string where;   // "backward of layer 32 of 32, micro-batch 1 of 8"
  std::string during;  // whose allocation made the peak: "gradient of output (mlp.down_proj)"
  std::vector<Holding> alive;  // largest first
};

// Change of the run file that makes it fit (or fit with room).
struct Suggestion {
  struct Edit {
    std::string key, from, to;
  };
  // One of the changes that it is made of, with what that costs instead of memory.
  struct Part {
    std::string change, moves_cost_to;
  };
  std::vector<Edit> edits;  // run-file keys
  std::vector<Part> parts;
  std::string change;  // "recompute.mode = full", as a person says it
  Bytes saves{};
  Bytes peak{};  // device bytes after the change
  Verdict verdict = Verdict::kFits;
  std::string
      moves_cost_to;  // recompute, communication, CPU transfer, accuracy, complexity, throughput
  std::string cost;   // a sentence: "recomputes every layer: about a third more compute"
  // Longer that as many tokens take as the run's step has, on as many devices as the change leaves; negative: shorter. Absent:
  // no times are known of the device.
  std::optional<Seconds> costs;
};

struct Prediction {
  Verdict verdict = Verdict::kFits;
  ParameterCounts parameters;
  std::int64_t trainable = 0;
  Bytes capacity{};  // as CUDA reports it (low end of what has been seen)
  Bytes usable{};    // capacity
  // What the allocator reserves is estimated, because the verdict is the same for every number it may come to (decided()).
  bool estimated = false;
  PeakPrediction peak;
  std::vector<RankPrediction> ranks;  // one for each distinct rank, rank 0 first
  // Beside the device, of the rank that keeps most there, and what it is.
  Bytes host{}, pinned{}, nvme{};
  std::vector<HostHolding> holdings;
  Bytes host_of_node{};                   // of all ranks of one machine, the fullest
  Verdict host_verdict = Verdict::kFits;  // whether one has that much (predict/host_room.h)
  Bytes
      weights_alone{};  // parameters of one rank for inference, in the compute type: "it fits for inference"
  std::optional<StepTime> time;  // see predict_time
  std::vector<Assumption> assumptions;
  std::vector<std::string> warnings;

  // Tight or not: what is expected is within the device.
  bool is_expected_to_fit() const {
    return peak.device <= usable && host_verdict != Verdict::kDoesNotFit;
  }
};

struct Predicted {
  std::optional<Prediction> prediction;  // absent: `error` says why
  std::optional<Diagnostic> error;
};

// Memory of every distinct rank, with what the allocator reserves for it, simulated request by request. Pure.
Prediction predict(const Job& job);
// The verdict and the peak of predict(), to the byte, in less time: the allocator is played for the stages that may be the
// fullest. What the others reserve is estimated, and they say so (`estimated` of the rank).
Prediction predict_fullest(const Job& job);
// predict_fullest(), or nothing where that does not fit for sure, in less time: the first stage that may be too much ends it,
// as soon as more is reserved than the device has for it.
std::optional<Prediction> predict_if_it_fits(const Job& job);
// The same with what the allocator reserves estimated, for searches that ask thousands of times: the cost does not grow
// with layers, micro-batches or ranks. An answer that is shown comes from the two above.
Prediction estimate(const Job& job);
// The verdict of predict(): where the estimate is certain of it, with the numbers of estimate(), which says so
// (`estimated`); elsewhere predict_fullest().
Prediction decided(const Job& job);

// Seconds of a step on the run's machine; nothing for a device of which only the memory was said. Apart from predict(),
// because memory alone answers most questions.
std::optional<StepTime> predict_time(const Job& job);

// The same step on the run's machine, and where it spans several and does not say what they are, on each other that is known
// with this device: the band reaches over all of them. Empty for a device of which only the memory was said.
struct OnMachine {
  const Machine* machine = nullptr;
  Seconds step{};
};
std::vector<OnMachine> step_on_machines(const Job& job);
// The first of the slowest; of one at least.
const OnMachine& slowest_of(const std::vector<OnMachine>& steps);

// The same step with one thing better than it is.
struct WhatIf {
  std::string change;  // "network 2x faster"
  Seconds step{};
  double gain = 0;  // of the step as it is
};
std::vector<WhatIf> what_would_help(const Job& job);

// The moment of the peak of one of `prediction.ranks`, with everything alive.
Moment peak_moment(const Job& job, std::size_t rank_index);
Moment phase_moment(const Job& job, std::size_t rank_index, Phase phase);

// The judge: replays every single event of every rank. Equal to predict() and estimate() to the byte, only slower.
Prediction predict_by_replay(const Job& job);
Prediction estimate_by_replay(const Job& job);

}  // namespace steelyard
