// Whether predictions choose well: within each group of measured layouts, where the one that is predicted to be the fastest
// of those that fit stands among the measured, and what it costs to have taken it.
//
//   group      the same model, sequence length and global batch on the same devices, three layouts or more that ran
//   offered    predicted to fit; where none is, those that are tight: what a plan would show
//   top 3      the measured best is among the three fastest of what is offered; with tight: of all that may fit
//   lost       the predicted best's measured time over the measured best's
//   died       the predicted best ran out of memory
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "validate/validate.h"

namespace steelyard {

struct RankedGroup {
  std::string name;  // "llama 13.0B, 64 x a100-sxm-80gb, sequence 2,048, batch 2,048"
  std::int64_t layouts = 0, ran = 0, offered = 0;
  const JudgedRow *measured_best = nullptr, *predicted_best = nullptr;  // null: nothing is offered
  std::int64_t place = 0;  // of the measured best among what is offered; 0: it is not offered
  std::int64_t place_with_tight = 0;  // among all that is not said to be too large
  std::optional<double>
      lost;  // percent; absent when the predicted best died, or nothing is offered
  bool died = false;
};

struct SourceRanking {
  std::string source;
  std::vector<RankedGroup> groups;
  std::int64_t in_top = 0, in_top_with_tight = 0, died = 0;
  double median_lost = 0, percentile_95_lost = 0;  // percent
};

constexpr std::int64_t kTop = 3;

// Sources whose rows can be ranked, in their order.
std::vector<SourceRanking> rankings_of(const std::vector<SourceResult>& results);

}  // namespace steelyard
