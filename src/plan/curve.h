// The answer of a plan against the size of the cluster: the fastest step, or how far it goes.
//
//   devices   step      layout
//         8   1.7 s     megatron pipeline 2 data 4 ...
//        16   905 ms    ...
//
// The global batch is that of the largest cluster, unless it is said: so the points are of one training run.
#pragma once

#include <cstdint>
#include <optional>
#include <tl/expected.hpp>
#include <vector>

#include "plan/extremes.h"

namespace steelyard {

struct CurvePoint {
  std::int64_t devices = 1;
  std::int64_t value =
      0;  // of what is wanted, if something is: tokens, millions of parameters, ...
  std::optional<PlanRow> row;  // its fastest; nothing: none fits
  bool unfinished = false;     // the time was up: the row, if any, is the best so far
};

struct Curve {
  std::optional<Wanted> wanted;  // nothing: the fastest step
  std::int64_t global_batch = 0;
  std::vector<CurvePoint> points;
};

tl::expected<Curve, Diagnostics> curve_of(const Value& document,
                                          const std::vector<std::int64_t>& devices,
                                          std::optional<Wanted> wanted, const SearchHelp& help);

}  // namespace steelyard
