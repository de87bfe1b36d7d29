// How far something goes: the last rung of a ladder that holds, by doubling and then by halving what is between.
//
//   rungs of 1 from 1:    1 2 3 ... 128 130 132 ... 256 260 264 ...     so that a step is never more than 0.8 %
//   furthest(rungs, 1000, fits)   1,000 yes · 2,000 yes · 4,000 no · 3,008 no · 2,496 yes ...   -> 2,816, and not 2,832
//
// Every command that asks how large, how long or how many asks here, with the same rungs and with one answer to "does it fit":
// the verdict of predict(), which is what weigh says of that value.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "predict/prediction.h"

namespace steelyard {

// It is sure to fit: the high end of the band is within the device, and the host has room for what is kept there.
inline bool is_sure_to_fit(const Prediction& prediction) {
  return prediction.verdict == Verdict::kFits;
}

// Multiples of `unit` from the first that is not below `least`: each up to 128 of them, then 128 to each doubling. `most` is a
// rung, too.
std::vector<std::int64_t> rungs_of(std::int64_t unit, std::int64_t least, std::int64_t most);

// Sizes of models in millions of parameters, as `weigh 7.125B` takes them.
std::vector<std::int64_t> rungs_of_parameters();
constexpr std::int64_t kFirstSize = 1'000;
// "7.125B"
std::string size_words(std::int64_t millions);

struct Furthest {
  std::optional<std::int64_t>
      last;  // that holds, and the rung above it does not; none: not even the first rung does
  std::optional<std::int64_t> next;  // the rung above; none: there is none
  bool finished = true;  // false: the asked ran out of time, and `last` is the best so far
};

// `start`: where to begin. `fits`: nothing where it was stopped before it knew.
Furthest furthest(const std::vector<std::int64_t>& rungs, std::int64_t start,
                  const std::function<std::optional<bool>(std::int64_t)>& fits);

}  // namespace steelyard
