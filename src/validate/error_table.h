// How far predictions stand from measurements, in figures. Errors are in percent of what was measured: -3 is three percent
// too low.
//
//   rows 1,121   in band 1,052   bias -1.2   median 3.4   95 % 11.8   max 24.0
//
// Bias is the mean with its sign; the others are of the absolute error, by nearest rank. In the band is what was measured
// between the low and the high end of what was predicted for that meter.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "predict/prediction.h"
#include "quantity/quantity.h"

namespace steelyard {

double percent_error(Bytes measured, Bytes predicted);

struct ErrorFigures {
  std::int64_t rows = 0;
  std::int64_t equal = 0;               // to the byte
  std::optional<std::int64_t> in_band;  // measured within the predicted band; absent: none has one
  double bias = 0, median = 0, percentile_95 = 0, largest = 0;
};

class ErrorTable {
 public:
  // `in_band`: absent where what is predicted has no band, as a single kernel.
  void add(Bytes measured, Bytes predicted, std::optional<bool> in_band);
  ErrorFigures figures() const;

 private:
  std::vector<double> errors_;
  std::int64_t equal_ = 0;
  std::optional<std::int64_t> in_band_;
};

// Runs that died and runs that ran, by what was said of them.
struct OutcomeFigures {
  struct Said {
    std::int64_t fits = 0, tight = 0, does_not_fit = 0;
    std::int64_t rows() const { return fits + tight + does_not_fit; }
  };
  Said died;  // does_not_fit: called; fits: missed
  Said ran;   // does_not_fit: a false alarm
  void add(bool out_of_memory, Verdict verdict);
  std::int64_t rows() const { return died.rows() + ran.rows(); }
};

}  // namespace steelyard
