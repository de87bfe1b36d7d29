// What a plan may change of the recipe where it is allowed to: what is trained stays, how precisely, or where its states
// wait, does not.
//
//   plan --allow offload --allow fp8        each layout as asked; with the optimizer's states, parameters and activations on
//                                           the host, in every combination; in 8 bits
//   plan --allow cuda-graphs                as asked; with graphs of modules; with one of the iteration
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
  bool is_way_out =
      true;  // tried where nothing fits: another one needs less, and costs little more
};
const std::vector<AllowedChange>& recipe_changes();

}  // namespace steelyard
