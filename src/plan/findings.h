// What a search has found so far: what fits, what does not and why, and from which time on nothing can be wanted.
#pragma once

#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "plan/search.h"

namespace steelyard {

struct LayoutOutcome {
  WeighedLayout answer;
  std::string code, words;  // when refused
  bool skipped = false;     // the time was up
};

class Findings {
 public:
  static constexpr double kNever = std::numeric_limits<double>::infinity();

  Findings(const PlanTarget& target, const Space& space, const SearchWish& wish)
      : target_(target), space_(space), wish_(wish) {}

  void refuse(const std::string& code, const std::string& words, std::int64_t layouts = 1);
  // Without being weighed: by a bound, which says how many bytes are too many at least, or by a leaner one.
  void exclude(std::uint32_t nearest, double excess, std::int64_t layouts = 1);
  void exclude_like(const WeighedLayout& leaner);
  void take(const LayoutOutcome& weighing);

  // The time above which no layout can be wanted.
  double limit() const;
  double best_seconds() const { return best_time_ < kNever ? best_time_ : 0; }
  // Of layouts that nearly fit only the fastest are wanted, so many unlike ones as were asked for.
  bool is_slower_than_tight(double seconds) const {
    return !wish_.everything && !wish_.first_that_fits && unlike_tight_.size() >= wish_.tight &&
           seconds > unlike_tight_.back().seconds;
  }
  // What nearly fits is wanted only where it is faster than all that fits.
  bool is_slower_than_fit(double seconds) const {
    return !wish_.everything && !wish_.first_that_fits && seconds > best_time_;
  }
  // Whether something found is no slower and no larger than what needs so much at least.
  bool is_beaten(double seconds, double bytes) const;

  SearchResult result();

  SearchCounts counts;
  bool interrupted = false;

 private:
  void found(const WeighedLayout& answer);
  // The fastest of each group of alike layouts, so many groups as are wanted.
  void keep_if_unlike(std::vector<WeighedLayout>& unlike, const WeighedLayout& answer,
                      std::size_t wanted) const;
  static void miss(TooLarge& group, std::uint32_t nearest, std::int64_t excess,
                   std::int64_t layouts = 1);
  std::int64_t usable() const { return target_.device->capacity.value().value(); }

  const PlanTarget& target_;
  const Space& space_;
  const SearchWish& wish_;
  std::vector<WeighedLayout> weighed_;
  std::map<std::string, Refusal> refusals_;
  std::map<Pile, TooLarge> too_large_;
  TooLarge certain_, on_host_;
  double best_time_ = kNever;
  std::vector<WeighedLayout> unlike_, unlike_tight_;  // fastest first
  std::vector<std::pair<double, double>> front_;      // seconds, bytes
};

}  // namespace steelyard
