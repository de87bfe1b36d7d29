// What is planned where a run over several machines does not say what they are: of the layouts that draw with the fastest, the
// one that loses least whichever machine it turns out to be (predict/draw.h).
//
//   steady draws with the fastest (2) on hgx-h100, which is assumed
//          on google-a3-high 2.8 s, where that takes 21 % longer
#pragma once

#include <optional>

#include "plan/plan.h"

namespace steelyard {

struct SteadyPlan {
  PlanRow row;
  Steadiness why;
};
// The steadiest sure layout, where it is not `fastest`. `result` is the search with the machine assumed.
std::optional<SteadyPlan> steadiest(const PlanQuestion& question, const Space& space,
                                    const SearchResult& result, const PlanRow& fastest,
                                    const SearchHelp& help);

}  // namespace steelyard
