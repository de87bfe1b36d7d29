// The settings of a run that save memory, each taken back alone: which of them the run that died did not have.
//
//   measured 5.9 GiB of activations; the run has 0.9, without recompute.mode = full it has 6.1   -> that one was ignored
//   measured 8.2 GiB of parameters on a rank; the run has 1.0, undivided 8.2                     -> replicated
//
// What is compared are piles (of a snapshot) or what was allocated with the request that failed (of a text).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "diagnose/diagnosis.h"

namespace steelyard {

enum class SavingSetting : std::uint8_t {
  kRecomputation,
  kLossKernel,
  kAttention,
  kPrecision,
  kAdapter,
  kAccumulation,
  kOffload,
  kEightBitOptimizer,
  kSharding
};

struct RunWithout {
  SavingSetting setting;
  std::vector<Suggestion::Edit> edits;  // `to` empty: the key is taken out
  std::string words;                    // "recompute.mode = full"
  Job job;
  Prediction prediction;  // estimated
};

// Those that can be weighed, in the order in which they are forgotten most often.
std::vector<RunWithout> runs_without_settings(const DiagnosisQuestion& question);

// What a rank needs at most in a phase, in its first step or later ones.
std::int64_t most_allocated(const RankPrediction& rank, Phase phase);

// Whether the run's tensors and what is beside the allocator fit together: only pieces could then be in the way.
bool fits_without_pieces(const Prediction& prediction, const RankPrediction& rank);

// Sharding that is not there leaves whole parameters; any other setting is itself the cause.
Cause cause_of_missing(const RunWithout& run);

}  // namespace steelyard
