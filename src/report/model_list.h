// `list models`: every preset with its exact count, and who disputes it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "report/style.h"

namespace steelyard {

std::string models_text(const Style& style);
nlohmann::ordered_json models_json();

}  // namespace steelyard
