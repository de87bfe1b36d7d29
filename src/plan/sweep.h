// The same question asked with other values: every combination of the axes, in order, the last axis
// fastest.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "document/diagnostic.h"
#include "document/value.h"
#include "plan/axis.h"
#include "predict/prediction.h"

namespace steelyard {

// The answer to one run file, or what is wrong with it.
struct Weighed {
  std::optional<Job> job;
  std::optional<Prediction> prediction;
  Diagnostics problems;
};
using Weigh = std::function<Weighed(const Value& run)>;

struct SweepPoint {
  std::vector<Value> values;  // one for each axis
  Weighed weighed;
};

// The number of combinations; nothing when they are more than kMostValues.
std::optional<std::size_t> combinations_of(const std::vector<SweepAxis>& axes);
std::vector<SweepPoint> sweep(const Value& run, const std::vector<SweepAxis>& axes,
                              const Weigh& weigh);

}  // namespace steelyard
