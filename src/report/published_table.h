// Published layouts beside what a plan of the same task finds.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "plan/published.h"
#include "report/style.h"

namespace steelyard {

std::string published_text(const std::vector<AgainstPublished>& answers, const Style& style);
nlohmann::ordered_json published_json(const std::vector<AgainstPublished>& answers);

}  // namespace steelyard
