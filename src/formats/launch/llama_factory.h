// What LLaMA-Factory's two YAML formats have in common.
#pragma once

#include <string>
#include <string_view>

#include "formats/launch/formats.h"

namespace steelyard {

// Weights of `bits` under an adapter. `double_quantisation` is the path of their key for quantised constants.
void read_quantised_base(ConfigReader& reading, const std::string& bits, const Value& at,
                         std::string_view double_quantisation);
void refuse_freezing(ConfigReader& reading, const Value& at);

}  // namespace steelyard
