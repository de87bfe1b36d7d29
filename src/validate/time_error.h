// How far predicted step times stand from measured ones.
//
//   rows 61   in band 58   mean 4.5 %   median 2.6   max 12.1   bias +0.3   rank 0.999   its own median would be off by 183 %
//
// Rank is Spearman's correlation: whether the faster run is predicted to be the faster one. The last figure is what one would
// be off by, who always said the median of the measured times: a set that this beats cannot validate anything.
#pragma once

#include <cstdint>
#include <vector>

namespace steelyard {

struct TimeFigures {
  std::int64_t rows = 0, in_band = 0;
  double mean = 0, median = 0, largest = 0;  // of the absolute errors, percent
  double bias = 0;                           // the median of the errors with their sign
  double rank_correlation = 0;               // 0 for fewer than three rows
  double of_median = 0;
};

// Of a step, in seconds: low <= predicted <= high.
struct TimePair {
  double measured = 0, predicted = 0, low = 0, high = 0;
};

class TimeErrors {
 public:
  void add(const TimePair& pair) { pairs_.push_back(pair); }
  TimeFigures figures() const;

 private:
  std::vector<TimePair> pairs_;
};

}  // namespace steelyard
