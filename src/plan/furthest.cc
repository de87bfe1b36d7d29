#include "plan/furthest.h"

#include <fmt/format.h>

#include <algorithm>

#include "model/guess.h"

namespace steelyard {
namespace {

constexpr std::int64_t kRungs = 128;  // to each doubling
constexpr std::int64_t kMillion = 1'000'000;
constexpr std::int64_t kMostMillions = 100'000'000;  // 100 T

}  // namespace

std::vector<std::int64_t> rungs_of(std::int64_t unit, std::int64_t least, std::int64_t most) {
  std::vector<std::int64_t> rungs;
  std::int64_t step = 1;
  for (std::int64_t count = 1; count <= most / unit; count += step) {
    if (count * unit >= least) rungs.push_back(count * unit);
    if (count >= 2 * kRungs * step) step *= 2;
  }
  if (most >= least && (rungs.empty() || rungs.back() < most)) rungs.push_back(most);
  return rungs;
}

std::vector<std::int64_t> rungs_of_parameters() {
  return rungs_of(1, kSmallestGuess / kMillion, kMostMillions);
}

std::string size_words(std::int64_t millions) {
  return fmt::format("{}.{:03}B", millions / 1000, millions % 1000);
}

Furthest furthest(const std::vector<std::int64_t>& rungs, std::int64_t start,
                  const std::function<std::optional<bool>(std::int64_t)>& fits) {
  Furthest answer;
  if (rungs.empty()) return answer;
  const auto rung_at = [&](std::int64_t value) {  // the first that is not below
    const auto found = std::lower_bound(rungs.begin(), rungs.end() - 1, value);
    return found - rungs.begin();
  };
  const std::ptrdiff_t end = static_cast<std::ptrdiff_t>(rungs.size());
  std::ptrdiff_t low = -1, high = end;  // the last known to fit, the first known not to
  const auto ask = [&](std::ptrdiff_t at) {
    const std::optional<bool> known = fits(rungs[static_cast<std::size_t>(at)]);
    if (!known)
      answer.finished = false;
    else
      (*known ? low : high) = at;
    return known.has_value();
  };
  std::ptrdiff_t at = rung_at(start);
  while (high - low > 1) {
    if (!ask(at)) break;
    if (low < 0)
      at = high == 0 ? 0 : std::min(high - 1, rung_at(rungs[static_cast<std::size_t>(high)] / 2));
    else if (high == end)
      at = low + 1 >= end ? low
                          : std::max(low + 1, rung_at(2 * rungs[static_cast<std::size_t>(low)]));
    else
      at = low + (high - low) / 2;
  }
  if (low >= 0) answer.last = rungs[static_cast<std::size_t>(low)];
  if (high < end) answer.next = rungs[static_cast<std::size_t>(high)];
  return answer;
}

}  // namespace steelyard
