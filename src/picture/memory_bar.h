// Memory against the line of what is usable: one bar, the phases of a step, the ways out, and two sides beside each other.
//
//   |params|moments|######## activations ########|temp |::slack::|          at the peak, to the scale of the device
//                                                 |--- usable 79.1
//
// Parts stand in the fixed order of the piles, each with its own colour; what is over the line is hatched in red above it. Numbers
// are those of the terminal: the same scale, the same sharing out of the last digit.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "picture/svg.h"
#include "predict/prediction.h"
#include "report/amount.h"

namespace steelyard {

struct BarPart {
  Paint paint;
  std::string words;  // "optimizer moments"
  Bytes bytes{};
};

struct MemoryBar {
  std::string label;  // of a row: "backward"; empty for the only one
  std::string note;   // at its right end: "84.8", "+2.2 s"
  std::vector<BarPart> parts;
  bool marked = false;  // the row of the peak
  Bytes total() const;
};

// The nine piles of one phase, in their order, without empty ones.
std::vector<BarPart> parts_of(const PhasePrediction& phase, Bytes device);
// Of piles that were measured: slack and runtime may be unknown.
std::vector<BarPart> parts_of(const Piles& piles, Bytes unaccounted, std::optional<Bytes> slack,
                              std::optional<Bytes> runtime);
// The phase of the peak, of the rank of the peak.
MemoryBar bar_of_peak(const Prediction& prediction);

// The nine piles at the peak, the band of the need and the line.
std::string memory_bar_svg(const Prediction& prediction, const Frame& frame);
// A row for each phase of a rank, on one scale; the peak is outlined.
std::string phases_svg(const Prediction& prediction, std::size_t rank_index, const Frame& frame);
// Ranks that differ, one row each (some, the fullest among them, where they are many).
std::string ranks_svg(const Prediction& prediction, std::int64_t stages, const Frame& frame);
// What it needs now, and after each change.
std::string ladder_svg(const Prediction& prediction, const std::vector<Suggestion>& suggestions,
                       const Frame& frame);

// Rows on one scale against a line (0: none). `unit`: "GiB", at the head of the notes.
std::string rows_svg(const std::vector<MemoryBar>& rows, Bytes line, const std::string& line_words,
                     const std::string& unit, const std::string& finding, const Frame& frame);

// Two sides, pile by pile: predicted beside measured, before beside after. The largest difference first.
struct TwoSides {
  std::string before, after;  // "predicted", "oom.pickle"
  std::vector<BarPart> left, right;
};
std::string two_sides_svg(const TwoSides& sides, const Frame& frame);

// "Does not fit: ... Activations are 63 % of it." The sentence that stands for the picture.
std::string finding_of(const Prediction& prediction);

}  // namespace steelyard
