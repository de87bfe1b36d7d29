// A key of the run file, explained: `steelyard explain training.precision`.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "job/keys.h"
#include "report/style.h"

namespace steelyard {

std::string key_text(const Key& key, const Style& style);
nlohmann::ordered_json json_of(const Key& key);

}  // namespace steelyard
