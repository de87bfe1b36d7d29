// How the search of a plan went, for -v: the task, what fills the device of the run as given, how many layouts there were and
// why most are not there.
//
//   364 layouts = 29 not allowed + 335 certainly too large
//   335 too large by weights, states and saved activations: the nearest misses by 0.01 GiB; it would fit with context 128 -> 4
#pragma once

#include <string>

#include "plan/plan.h"
#include "report/style.h"

namespace steelyard {

std::string asked_text(const PlanQuestion& question, const PlanAnswer& answer, const Style& style);
std::string counted_text(const PlanAnswer& answer, double seconds, const Style& style);
// "41,216 layouts = 29,004 not allowed + ..."
std::string counts_text(const SearchCounts& counts, const Style& style);

}  // namespace steelyard
