// What `list` prints: everything that a run file may name, with its source.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "report/style.h"

namespace steelyard {

// One of the lists: how it prints and what it says as JSON.
struct List {
  std::string_view name;  // "models"
  std::string_view says;  // "presets, with exact counts"
  std::string (*text)(const Style& style);
  nlohmann::ordered_json (*json)();
};
const std::vector<List>& lists();

}  // namespace steelyard
