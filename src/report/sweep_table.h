// The answers of `sweep`: one row a point, then the curve against the line of what is usable.
//
//   training.sequence_length   needs         band   usable  largest             verdict
//                       2048    24.8   24.1..25.6     79.1  optimizer moments   fits
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "plan/largest_model.h"
#include "plan/sweep.h"
#include "report/style.h"

namespace steelyard {

std::string sweep_text(const std::vector<SweepAxis>& axes, const std::vector<SweepPoint>& points,
                       const Style& style);
nlohmann::ordered_json json_of(const std::vector<SweepAxis>& axes,
                               const std::vector<SweepPoint>& points);

// Figure 13 of the published rules: the largest model against the size of the cluster.
std::string largest_models_text(const LargestModelAnswer& answer, const Style& style);
nlohmann::ordered_json json_of(const LargestModelAnswer& answer);

}  // namespace steelyard
