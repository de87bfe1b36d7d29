// What a person asks of a finished search.
#include <algorithm>
#include <limits>

#include "plan/search.h"

namespace steelyard {

Layout layout_of(const Space& space, const WeighedLayout& weighed) {
  Layout layout = space.layout(weighed.layout);
  if (weighed.recomputed > 0) layout.recomputed = layout.least_recomputed = weighed.recomputed;
  return layout;
}

const WeighedLayout* SearchResult::best() const {
  return !weighed.empty() && weighed.front().fate == Fate::kFits ? &weighed.front() : nullptr;
}

std::vector<WeighedLayout> front_of(const SearchResult& result) {
  std::vector<WeighedLayout> front;
  for (const WeighedLayout& weighed : result.weighed) {
    if (weighed.fate != Fate::kFits) break;
    if (front.empty() || weighed.bytes < front.back().bytes) front.push_back(weighed);
  }
  return front;
}

std::vector<WeighedLayout> best_unlike(const SearchResult& result, const Space& space,
                                       std::size_t count, Fate fate) {
  std::vector<WeighedLayout> chosen;
  for (const WeighedLayout& weighed : result.weighed) {
    if (weighed.fate < fate || chosen.size() == count) break;
    if (weighed.fate > fate) continue;
    const bool known = std::any_of(chosen.begin(), chosen.end(), [&](const WeighedLayout& other) {
      return are_alike(layout_of(space, other), layout_of(space, weighed));
    });
    if (!known) chosen.push_back(weighed);
  }
  return chosen;
}

const WeighedLayout* simplest_within(const SearchResult& result, const Space& space, double share) {
  const WeighedLayout* simplest = nullptr;
  for (const WeighedLayout& weighed : result.weighed) {
    if (weighed.fate != Fate::kFits || weighed.seconds > result.best()->seconds * (1 + share))
      break;
    if (simplest == nullptr ||
        complexity_of(layout_of(space, weighed)) < complexity_of(layout_of(space, *simplest)))
      simplest = &weighed;
  }
  return simplest;
}

const WeighedLayout* nearest_fit(const SearchResult& result, const Space& space,
                                 const Layout& layout) {
  const WeighedLayout* nearest = nullptr;
  int least = std::numeric_limits<int>::max();
  for (const WeighedLayout& weighed : result.weighed) {
    if (weighed.fate != Fate::kFits) break;
    const int differences = differences_between(layout, layout_of(space, weighed));
    if (differences >= least) continue;
    least = differences;
    nearest = &weighed;
  }
  return nearest;
}

}  // namespace steelyard
