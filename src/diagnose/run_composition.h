// What a run has alive at the fullest moment of a phase, by what a verdict speaks of.
//
//   backward   states 3.9 GiB   activations 1.2 GiB, of which logits 0.8   gathered 0.3
#pragma once

#include <algorithm>
#include <cstdint>

#include "job/job.h"
#include "ledger/pile.h"
#include "predict/prediction.h"

namespace steelyard {

struct Composition {
  std::int64_t states = 0, moments = 0, masters = 0, gradients = 0;
  std::int64_t activations = 0, logits = 0, scores = 0, copies = 0;  // the latter of activations
  std::int64_t gathered = 0;
  std::int64_t all() const { return std::max<std::int64_t>(states + activations + gathered, 1); }
};

bool is_of_logits(const Holding& holding);
bool is_of_scores(const Holding& holding);

// Of `prediction.ranks[rank_index]`.
Composition composition_of(const Job& job, std::size_t rank_index, Phase phase);

}  // namespace steelyard
