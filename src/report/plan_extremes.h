// How far a cluster goes, and why a layout is not the answer.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "plan/extremes.h"
#include "report/style.h"

namespace steelyard {

std::string_view name_of(Wanted wanted);
// `price`: of one device for an hour, in whatever money.
std::string extremes_text(const ExtremeAnswer& answer, std::optional<double> price, double seconds,
                          const Style& style);
nlohmann::ordered_json json_of(const ExtremeAnswer& answer, std::optional<double> price);

std::string why_text(const std::vector<WhyAnswer>& answers, const PlanAnswer& whole,
                     const Style& style);
nlohmann::ordered_json json_of(const WhyAnswer& answer);

}  // namespace steelyard
