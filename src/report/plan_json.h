// A plan for programs: steelyard.plan/1. The layouts as they are printed, what was counted, what is not there and why.
// Integers are bytes; names are fixed.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "plan/plan.h"

namespace steelyard {

nlohmann::ordered_json json_of(const PlanQuestion& question, const PlanAnswer& answer);
// One layout, with what it needs and how long its step is.
nlohmann::ordered_json json_of(const PlanRow& row);

}  // namespace steelyard
