// The names of [environment]: `list environment`, and of one `explain environment.transformers`.
//
//   environment     takes                    absent   changes
//   transformers    a version, as 4.57       5.17     experts are linear modules, each of its own, before 5; ...
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "job/environment_keys.h"
#include "report/style.h"

namespace steelyard {

std::string environment_text(const Style& style);
nlohmann::ordered_json environment_json();

// "environment.transformers" or "transformers"; nothing when it is no name of ours.
const EnvironmentKey* environment_key_asked(std::string_view word);
std::string environment_key_text(const EnvironmentKey& key, const Style& style);
nlohmann::ordered_json json_of(const EnvironmentKey& key);

}  // namespace steelyard
