// A budget of tokens in words and as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "cost/budget.h"
#include "report/style.h"

namespace steelyard {

std::string budget_text(const Budget& budget, const Style& style);
nlohmann::ordered_json json_of(const Budget& budget);

}  // namespace steelyard
