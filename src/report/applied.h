// The answer of --apply: what was changed, and what it did to every pile.
//
//   fits   needs 59.9 GiB (58.2 to 61.5), usable 79.1: 19.2 spare
//
//   ~ parallel.context                1 -> 2
//
//   GiB                before    after     delta
//     activations        67.0     33.5     -33.5  --------------
//
//   costs recompute: every layer runs forward twice
//   step   9.3 s -> 10.5 s: 12.9 % more
#pragma once

#include <string>
#include <vector>

#include "predict/prediction.h"
#include "report/comparison.h"
#include "report/style.h"

namespace steelyard {

std::string applied_text(const Compared& before, const Compared& after,
                         const std::vector<Suggestion>& applied, const Style& style);

}  // namespace steelyard
