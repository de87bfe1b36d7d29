// Families that people train and that are not weighed yet, each with what it asks for beyond what is.
//
//   find_unweighed("nemotron_h")->needs      "layers of Mamba 2 between those that attend"
//
// A refusal names it, and the nearest that helps.
#pragma once

#include <string_view>

namespace steelyard {

struct UnweighedFamily {
  std::string_view model_type;
  std::string_view needs;
};
const UnweighedFamily* find_unweighed(std::string_view model_type);

}  // namespace steelyard
