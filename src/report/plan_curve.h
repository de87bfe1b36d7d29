// A plan against the size of the cluster, as table, curve and JSON (plan/curve.h).
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "plan/curve.h"
#include "report/style.h"

namespace steelyard {

std::string curve_text(const Curve& curve, const Style& style);
nlohmann::ordered_json json_of(const Curve& curve);

}  // namespace steelyard
