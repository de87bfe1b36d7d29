// The answer of `weigh` on one screen: the verdict, the moment of the peak as bars, and the ways
// out.
//
//   does not fit   needs 103.2 GiB (100.9 to 105.1), usable 79.1: 24.1 too much
//                  all 8 ranks alike · crosses the line in forward
//
//   at the peak: backward, the loss                              GiB
//     activations        ████████████████████████▋              67.0   65 %
//     temporary          ███████▏  logits                       19.6   19 %
//                        ─────────────────────────────|░░░░░░  103.2
//     weights alone      █████▌  training adds 88.2            15.0  fit
//
//   a change that fits           keys  peak  saves    step  costs
//     1  recompute.mode = full      1  71.7   31.5  +2.2 s  recompute
//     2  micro_batch = 1            3  74.0   29.2  +0.4 s  throughput
//        + loss = fused-linear                              compute
//   7 assumptions (-v) · try one: --apply 1
//
// The parts add up to the total as printed; bars are scaled to the larger of need and usable.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "predict/prediction.h"
#include "report/amount.h"
#include "report/style.h"

namespace steelyard {

struct Weighing {
  const Job& job;
  const Prediction& prediction;
  std::optional<Moment> moment;         // of the peak; absent: the phase alone is named
  std::vector<Suggestion> suggestions;  // numbered as printed
  bool all = false;                     // every row of every list
  std::string arguments;                // for the commands to try next: "run.toml --tensor 2"
  bool rehearsed =
      false;  // seen of a script: no run file could be changed, other ranks were not looked at
};

// One number of decimals for everything about this prediction.
Scale scale_of(const Prediction& prediction, Units units);

// "optimizer moments"
std::string words_of(Pile pile);

// Where in prediction.ranks the peak is.
std::size_t peak_rank_index(const Prediction& prediction);

// Columns before the facts of the lines below the verdict.
int fact_indent(const Prediction& prediction);

// "fits   needs ...", with a line end; narrow styles break it between facts.
std::string verdict_line(const Prediction& prediction, const Style& style);
std::string weighing_text(const Weighing& weighing, const Style& style);

// What -v adds: other ranks, what was alive at the peak, what was assumed.
std::string details_text(const Weighing& weighing, const Style& style);

}  // namespace steelyard
