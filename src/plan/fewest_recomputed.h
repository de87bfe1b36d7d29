// The fewest layers of a stage that must be computed again for a run to fit: by halving, because more of them never need
// more memory while at least two are kept whole (recompute_choice_test.cc).
//
//   fewest_recomputed(1, 8, [&](int layers) { return need_with(layers).fits; })     5: of eight, in three questions
//
// What `fits` of the most layers is known and true. search_test.cc holds the halving to asking every number.
#pragma once

#include <cstdint>

namespace steelyard {

template <class Fits>
std::int32_t fewest_recomputed(std::int32_t least, std::int32_t most, Fits fits) {
  while (least < most) {
    const std::int32_t middle = least + (most - least) / 2;
    if (fits(middle))
      most = middle;
    else
      least = middle + 1;
  }
  return most;
}

}  // namespace steelyard
