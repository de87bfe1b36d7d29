// torchtune's own configurations, which `tune run RECIPE --config llama3_1/8B_lora` takes by their names.
#pragma once

#include <optional>
#include <string_view>

#include "document/value.h"

namespace steelyard {

// What the configuration of that name says of memory; nothing when there is none.
std::optional<Value> torchtune_config(std::string_view name);
// The nearest names: "the configuration is ...", empty when none is near.
std::string torchtune_config_help(std::string_view name);

}  // namespace steelyard
