// How well predictions choose among measured layouts (validate/ranking.h).
//
//   choice             groups  best in top 3  to the letter  lost, %: median   95 %  died
//   vtrain                  2          100 %           50 %             0.6    4.5     0
//
//   predicted apart, up to  pairs  measured in that order
//     1 %                     613                    55 %
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "report/style.h"
#include "validate/ranking.h"

namespace steelyard {

// `every_group`: each with its two bests.
std::string ranking_text(const std::vector<SourceRanking>& rankings, bool every_group,
                         const Style& style);
nlohmann::ordered_json json_of(const std::vector<SourceRanking>& rankings);
// What the row of all sweeps together says.
nlohmann::ordered_json sweeps_json(const std::vector<SourceRanking>& rankings);

}  // namespace steelyard
