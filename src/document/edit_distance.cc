#include "document/edit_distance.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

namespace steelyard {
namespace {

constexpr int kSlip = 2;
constexpr int kDigitChanged = 3;
constexpr std::size_t kMostNames = 3;
constexpr std::size_t kLongestWord = 64;  // longer ones are cut: no name is that long

char folded(char c) {
  if (c >= 'A' && c <= 'Z') return static_cast<char>(c - 'A' + 'a');
  if (c == '_' || c == ' ' || c == '.') return '-';
  return c;
}
bool is_digit(char c) { return c >= '0' && c <= '9'; }
int cost_of(char c) { return c == '-' ? 1 : kSlip; }

std::string folded(std::string_view word) {
  std::string result(word.substr(0, kLongestWord));
  std::transform(result.begin(), result.end(), result.begin(), [](char c) { return folded(c); });
  return result;
}

std::size_t common_start(std::string_view a, std::string_view b) {
  const auto [end, other] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  return static_cast<std::size_t>(end - a.begin());
}

struct Candidate {
  int distance = 0;
  std::size_t start = 0;  // letters in common at the start: slips are rarer there
  std::string_view name;
};

int limit_for(std::size_t length) {
  if (length <= 1) return 0;
  if (length <= 4) return kSlip;
  return std::max(2 * kSlip, kSlip * static_cast<int>(length) / 3);
}
// Two slips and a separator.
int limit_for_product(std::size_t length) {
  return length <= 4 ? limit_for(length) : 2 * kSlip + 1;
}

// The numbers of a folded word: "qwen3-coder-480b" 3, 480. With the letters that make codes of them, those before a word's
// first number, where they are at most two, and a single one behind it but the b of bytes and billions: "rtx-a6000" a6000,
// "l40s" l40s, "h100-sxm-80gb" h100, 80.
std::vector<std::string> numbers_of(std::string_view word, MustKeep keep) {
  constexpr std::size_t kLongestCode = 2;
  const bool codes = keep == MustKeep::kCodes;
  std::vector<std::string> found;
  std::size_t start = 0;  // of the part of the word between separators
  for (std::size_t at = 0; at < word.size(); ++at) {
    if (word[at] == '-') start = at + 1;
    if (!is_digit(word[at])) continue;
    std::size_t end = at;
    while (end < word.size() && is_digit(word[end])) ++end;
    std::string number(word.substr(at, end - at));
    const bool is_first = std::none_of(word.begin() + static_cast<std::ptrdiff_t>(start),
                                       word.begin() + static_cast<std::ptrdiff_t>(at), is_digit);
    if (codes && is_first && at - start <= kLongestCode)
      number.insert(0, word.substr(start, at - start));
    const bool one_letter =
        end < word.size() && word[end] != '-' && word[end] != 'b' &&
        (end + 1 == word.size() || word[end + 1] == '-' || is_digit(word[end + 1]));
    if (codes && one_letter) number += word[end];
    found.push_back(std::move(number));
    at = end - 1;
  }
  return found;
}

// Whether `name` goes on where the word ends: qwen3-235b, qwen3-235b-a22b; not phi-3, phi-3.5.
bool goes_on(std::string_view name, const std::string& meant) {
  constexpr std::size_t kShortestStart = 2;
  if (meant.size() < kShortestStart || name.size() <= meant.size()) return false;
  const char next = name[meant.size()];
  return folded(next) == '-' && next != '.' && folded(name.substr(0, meant.size())) == meant;
}

template <class Name>
std::vector<std::string> continued(const std::string& meant, std::span<const Name> names) {
  std::vector<std::string> found;
  for (const Name& name : names)
    if (goes_on(name, meant)) found.emplace_back(name);
  std::stable_sort(found.begin(), found.end(),
                   [](const std::string& a, const std::string& b) { return a.size() < b.size(); });
  if (found.size() > kMostNames) found.resize(kMostNames);
  return found;
}

template <class Name>
std::vector<std::string> nearest(std::string_view word, std::span<const Name> names,
                                 std::optional<MustKeep> keep = std::nullopt) {
  const std::string meant = folded(word);
  if (auto found = continued(meant, names); !found.empty()) return found;
  const int limit = keep ? limit_for_product(meant.size()) : limit_for(meant.size());
  const std::vector<std::string> numbers =
      keep ? numbers_of(meant, *keep) : std::vector<std::string>();
  std::vector<Candidate> near;
  for (const Name& name : names) {
    if (keep && numbers_of(folded(std::string_view(name)), *keep) != numbers) continue;
    const int difference =
        static_cast<int>(std::min(name.size(), kLongestWord)) - static_cast<int>(meant.size());
    if (std::abs(difference) > limit) continue;
    const int distance = edit_distance(meant, name);
    if (distance > limit) continue;
    // Most of a name must be there: otherwise any short word is near any other.
    if (distance >= kSlip * static_cast<int>(name.size())) continue;
    near.push_back({distance, common_start(meant, folded(std::string_view(name))), name});
  }
  std::stable_sort(near.begin(), near.end(), [](const Candidate& a, const Candidate& b) {
    return a.distance != b.distance ? a.distance < b.distance : a.start > b.start;
  });
  std::vector<std::string> result;
  for (const Candidate& candidate : near)
    if (result.size() < kMostNames && candidate.distance <= near.front().distance + kSlip)
      result.emplace_back(candidate.name);
  return result;
}

template <class Name>
std::string joined(std::span<const Name> names) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i > 0) text += i + 1 == names.size() ? " or " : ", ";
    text += fmt::format("\"{}\"", names[i]);
  }
  return text;
}

}  // namespace

int edit_distance(std::string_view left, std::string_view right) {
  const std::string a = folded(left);
  const std::string b = folded(right);
  // Three rows of the table are enough for swaps of neighbours.
  std::array<std::array<int, kLongestWord + 1>, 3> rows{};
  auto* before = &rows[0];
  auto* last = &rows[1];
  auto* current = &rows[2];
  for (std::size_t j = 1; j <= b.size(); ++j) (*last)[j] = (*last)[j - 1] + cost_of(b[j - 1]);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    (*current)[0] = (*last)[0] + cost_of(a[i - 1]);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const char x = a[i - 1];
      const char y = b[j - 1];
      const int change = x == y ? 0 : (is_digit(x) && is_digit(y)) ? kDigitChanged : kSlip;
      int best = (*last)[j - 1] + change;
      best = std::min(best, (*last)[j] + cost_of(x));
      best = std::min(best, (*current)[j - 1] + cost_of(y));
      if (i > 1 && j > 1 && x == b[j - 2] && y == a[i - 2] && x != y)
        best = std::min(best, (*before)[j - 2] + kSlip);
      (*current)[j] = best;
    }
    std::swap(before, last);
    std::swap(last, current);
  }
  return (*last)[b.size()];
}

std::vector<std::string> nearest_names(std::string_view word,
                                       std::span<const std::string_view> names) {
  return nearest(word, names);
}
std::vector<std::string> nearest_names(std::string_view word, std::span<const std::string> names) {
  return nearest(word, names);
}

std::vector<std::string> nearest_products(std::string_view word,
                                          std::span<const std::string_view> names, MustKeep keep) {
  return nearest(word, names, keep);
}
std::vector<std::string> nearest_products(std::string_view word, std::span<const std::string> names,
                                          MustKeep keep) {
  return nearest(word, names, keep);
}

std::string did_you_mean(std::string_view noun, std::span<const std::string> nearest) {
  if (nearest.empty()) return {};
  return fmt::format("the {} {} {}", noun, nearest.size() == 1 ? "is" : "may be", joined(nearest));
}

std::string any_of(std::span<const std::string_view> names) { return joined(names); }
std::string any_of(std::span<const std::string> names) { return joined(names); }

}  // namespace steelyard
