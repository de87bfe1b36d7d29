#pragma once

#include <string_view>

namespace steelyard {

// The version of this build, as CMakeLists.txt states it: "0.1.0".
std::string_view version();

}  // namespace steelyard
