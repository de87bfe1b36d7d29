// Whether predictions choose well: of each group of measured layouts we offer what `plan` would (plan/plan.h), and look where
// the one that was measured to be the fastest stands there, and what it costs to have taken ours.
//
//   group           the same model, sequence length and global batch on the same devices, three layouts or more that ran
//   sure            predicted to fit
//   tight           expected to fit, the band crosses the line, predicted to be faster than all that are sure
//   offered         both, the fastest first; of those that a person would call the same (are_alike of plan/layout.h: up to
//                   micro-batch, order of the pipeline, sequence parallelism, loss) the fastest
//   top 3           the measured best, or one that is called the same, is among the three fastest of what is offered
//   to the letter   the measured best itself, micro-batch and all
//   predicted best  a plan's first answer: the fastest that is sure, or where the machines are not said the one of those that
//                   draw with it that loses least on any (predict/draw.h); where none is sure, of what is tight
//   lost            its measured time over the measured best's
//   died            it ran out of memory
//
// A measurement that was repeated stands in one source: vTrain's 512 devices, 53.910 and 53.938 s. No group is left out for its noise.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "validate/validate.h"

namespace steelyard {

struct RankedGroup {
  std::string name;  // "llama 13.0B, 64 x a100-sxm-80gb, sequence 2,048, batch 2,048"
  std::int64_t layouts = 0, ran = 0;
  std::int64_t sure = 0, tight = 0;                                     // offered
  const JudgedRow *measured_best = nullptr, *predicted_best = nullptr;  // null: nothing is offered
  std::int64_t place = 0;  // of the measured best among what is offered; 0: it is not offered
  std::int64_t place_to_the_letter = 0;
  std::optional<double>
      lost;  // percent; absent when the predicted best died, or nothing is offered
  bool died = false;
};

// Pairs of sure layouts of a group whose predicted steps are at most so far apart, and further than the entry before.
struct PairOrder {
  double gap = 0;                        // of the faster's step
  std::int64_t pairs = 0, in_order = 0;  // measured in the predicted order
};

struct SourceRanking {
  std::string source;  // and what of it is judged apart: "nanotron-ultrascale, one machine"
  bool sweeps_layouts = false;
  std::vector<RankedGroup> groups;
  std::int64_t in_top = 0, in_top_to_the_letter = 0, died = 0;
  double median_lost = 0, percentile_95_lost = 0;  // percent
  std::vector<PairOrder> orders;                   // nearest pairs first
};

constexpr std::int64_t kTop = 3;

// The groups of all sources that swept layouts, as one: other sources' groups mix releases and recipes, which no layout explains.
SourceRanking sweeps_together(const std::vector<SourceRanking>& rankings);

// Sources whose rows can be ranked, in their order.
std::vector<SourceRanking> rankings_of(const std::vector<SourceResult>& results);

}  // namespace steelyard
