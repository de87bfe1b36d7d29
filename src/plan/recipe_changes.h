// What a plan may change of the recipe where it is allowed to: what is trained stays, how precisely, or where its states
// wait, does not.
//
//   plan --allow offload --allow fp8        each layout as asked, with the optimizer's states on the host, in 8 bits
//
// One at a time. When nothing fits, all of them are tried, and adapters.
#pragma once

#include <string>
#include <vector>

#include "plan/layout.h"

namespace steelyard {

struct AllowedChange {
  std::string word;  // of --allow; empty: only where nothing fits
  RecipeChange change;
  std::string cost;
};
const std::vector<AllowedChange>& recipe_changes();

}  // namespace steelyard
