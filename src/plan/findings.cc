#include "plan/findings.h"

#include <algorithm>
#include <tuple>

namespace steelyard {

void Findings::refuse(const std::string& code, const std::string& words, std::int64_t layouts) {
  counts.not_allowed += layouts;
  Refusal& refusal = refusals_[code];
  refusal.code = code;
  if (refusal.words.empty()) refusal.words = words;
  refusal.layouts += layouts;
}

void Findings::miss(TooLarge& group, std::uint32_t nearest, std::int64_t excess,
                    std::int64_t layouts) {
  const bool first = group.layouts == 0;
  group.layouts += layouts;
  if (!first && excess >= group.least_excess) return;
  group.least_excess = excess;
  group.nearest = nearest;
}

void Findings::exclude(std::uint32_t nearest, double excess, std::int64_t layouts) {
  counts.certainly_too_large += layouts;
  miss(certain_, nearest, static_cast<std::int64_t>(excess), layouts);
}

void Findings::exclude_like(const WeighedLayout& leaner) {
  if (leaner.certain) {
    exclude(leaner.layout, static_cast<double>(leaner.bytes - usable()));
    return;
  }
  ++counts.certainly_too_large;
  TooLarge& group = too_large_[leaner.binds];
  group.binds = leaner.binds;
  miss(group, leaner.layout, leaner.bytes - usable());
}

void Findings::take(const LayoutOutcome& weighing) {
  const WeighedLayout& answer = weighing.answer;
  if (weighing.skipped) {
    ++counts.not_asked;
    return;
  }
  switch (answer.fate) {
    case Fate::kOpen:
      ++counts.cannot_be_faster;
      return;
    case Fate::kNotAllowed:
      refuse(weighing.code, weighing.words);
      return;
    case Fate::kTooLarge: {
      if (answer.certain) {
        exclude_like(answer);
        return;
      }
      ++counts.too_large;
      if (answer.over_host > 0) {
        miss(on_host_, answer.layout, answer.over_host);
        break;
      }
      TooLarge& group = too_large_[answer.binds];
      group.binds = answer.binds;
      miss(group, answer.layout, answer.bytes - usable());
      break;
    }
    case Fate::kTight:
      ++counts.tight;
      if (answer.seconds > 0) keep_if_unlike(unlike_tight_, answer, wish_.tight);
      break;
    default:
      ++counts.fits;
      found(answer);
  }
  weighed_.push_back(answer);
}

void Findings::found(const WeighedLayout& answer) {
  best_time_ = std::min(best_time_, answer.seconds);
  const auto bytes = static_cast<double>(answer.bytes);
  if (wish_.front) {
    const auto beats = [&](const auto& point) {
      return answer.seconds <= point.first && bytes <= point.second;
    };
    if (std::none_of(front_.begin(), front_.end(), [&](const auto& point) {
          return point.first <= answer.seconds && point.second <= bytes;
        })) {
      front_.erase(std::remove_if(front_.begin(), front_.end(), beats), front_.end());
      front_.emplace_back(answer.seconds, bytes);
    }
  }
  keep_if_unlike(unlike_, answer, wish_.best);
}

void Findings::keep_if_unlike(std::vector<WeighedLayout>& unlike, const WeighedLayout& answer,
                              std::size_t wanted) const {
  const Layout& layout = space_.layout(answer.layout);
  const auto same = std::find_if(unlike.begin(), unlike.end(), [&](const WeighedLayout& other) {
    return are_alike(space_.layout(other.layout), layout);
  });
  if (same != unlike.end()) {
    if (same->seconds > answer.seconds) *same = answer;
  } else {
    unlike.push_back(answer);
  }
  std::stable_sort(unlike.begin(), unlike.end(),
                   [](const auto& a, const auto& b) { return a.seconds < b.seconds; });
  if (unlike.size() > wanted) unlike.resize(wanted);
}

double Findings::limit() const {
  if (wish_.everything || wish_.front) return kNever;
  if (wish_.first_that_fits) return best_time_ < kNever ? -1 : kNever;
  if (unlike_.size() < wish_.best) return kNever;
  return std::max(unlike_.back().seconds, best_time_ * (1 + wish_.within));
}

bool Findings::is_beaten(double seconds, double bytes) const {
  if (!wish_.front || wish_.everything) return false;
  return std::any_of(front_.begin(), front_.end(), [&](const auto& point) {
    return point.first < seconds && point.second < bytes;
  });
}

SearchResult Findings::result() {
  SearchResult result;
  result.counts = counts;
  result.interrupted = interrupted;
  std::stable_sort(
      weighed_.begin(), weighed_.end(), [](const WeighedLayout& a, const WeighedLayout& b) {
        const auto rank = [](const WeighedLayout& w) {
          return w.fate == Fate::kFits ? 0 : w.fate == Fate::kTight ? 1 : 2;
        };
        return std::tuple(rank(a), a.seconds, a.layout) < std::tuple(rank(b), b.seconds, b.layout);
      });
  result.weighed = std::move(weighed_);
  for (auto& [code, refusal] : refusals_) result.refusals.push_back(refusal);
  std::stable_sort(result.refusals.begin(), result.refusals.end(),
                   [](const Refusal& a, const Refusal& b) { return a.layouts > b.layouts; });
  certain_.certain = true;
  if (certain_.layouts > 0) result.too_large.push_back(certain_);
  on_host_.host = true;
  if (on_host_.layouts > 0) result.too_large.push_back(on_host_);
  for (auto& [pile, group] : too_large_) result.too_large.push_back(group);
  std::stable_sort(result.too_large.begin(), result.too_large.end(),
                   [](const TooLarge& a, const TooLarge& b) { return a.layouts > b.layouts; });
  return result;
}

}  // namespace steelyard
