// Constants of the cost model from a user's own measured steps: only those that mean something, each within what is possible.
//
//   4 steps   product 0.78 -> 0.71 · links 0.81 -> 0.66      error 9.8 % before, 2.1 % after, 3.0 % held out
//
// Held out: each step predicted from a fit on the others. A constant moves only where that error falls by it, so that a few
// steps do not fit what they cannot tell; what stays has its shipped value.
#pragma once

#include <memory>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "cost/step_time.h"

namespace steelyard {

struct MeasuredStep {
  std::shared_ptr<const Job> job;
  double seconds = 0;
};

struct Calibration {
  struct Moved {
    std::string name;  // "product", "attention", "memory", "links", "host"
    double before = 0, after = 0;
  };
  AchievedRates rates;
  std::vector<Moved> moved;
  double error_before = 0, error_after = 0, error_held_out = 0;  // mean, percent
};

// All of one architecture; otherwise the reason why there is no answer.
tl::expected<Calibration, std::string> calibrate(const std::vector<MeasuredStep>& steps);

}  // namespace steelyard
