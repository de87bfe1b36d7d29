#include "formats/launch/pipeline_layout.h"

#include <fmt/format.h>

#include <algorithm>

namespace steelyard {
namespace {

constexpr std::size_t kMostLetters = 1'000'000;

// A count behind `*` at `at`, which moves behind it; nothing when there is none.
std::optional<std::size_t> repetition(std::string_view text, std::size_t& at) {
  if (at >= text.size() || text[at] != '*') return std::nullopt;
  std::size_t count = 0;
  std::size_t end = at + 1;
  while (end < text.size() && text[end] >= '0' && text[end] <= '9' && count < kMostLetters)
    count = count * 10 + static_cast<std::size_t>(text[end++] - '0');
  if (end == at + 1) return std::nullopt;
  at = end;
  return count;
}

// Parentheses first, then single letters, as Megatron-LM unrolls them.
std::optional<std::string> unrolled(std::string_view text) {
  std::string groups;
  for (std::size_t at = 0; at < text.size();) {
    if (text[at] != '(') {
      groups.push_back(text[at++]);
      continue;
    }
    const std::size_t close = text.find(')', at);
    if (close == std::string_view::npos || close == at + 1) return std::nullopt;
    const std::string_view inside = text.substr(at + 1, close - at - 1);
    at = close + 1;
    const auto count = repetition(text, at);
    if (!count || inside.size() * *count + groups.size() > kMostLetters) return std::nullopt;
    for (std::size_t i = 0; i < *count; ++i) groups += inside;
  }
  std::string letters;
  for (std::size_t at = 0; at < groups.size();) {
    const char letter = groups[at++];
    const auto count = repetition(groups, at);
    if (count.value_or(1) + letters.size() > kMostLetters) return std::nullopt;
    letters.append(count.value_or(1), letter);
  }
  return letters;
}

}  // namespace

std::optional<std::vector<std::int64_t>> layers_of_layout(std::string_view layout) {
  std::string plain(layout);
  // Scripts that eval their command quote once more.
  std::erase_if(plain, [](char c) { return c == ',' || c == '\'' || c == '"' || c == '\\'; });
  const auto letters = unrolled(plain);
  if (!letters || letters->empty()) return std::nullopt;
  std::vector<std::int64_t> layers = {0};
  for (const char letter : *letters) {
    if (letter == '|')
      layers.push_back(0);
    else if (letter == 't')
      ++layers.back();
    else if (letter != 'E' && letter != 'L' && letter != 'm')
      return std::nullopt;
  }
  return layers;
}

std::string layout_of_layers(const std::vector<std::int64_t>& layers) {
  std::string text = "E";
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (i > 0) text += "|";
    if (layers[i] > 0) text += fmt::format("t*{}", layers[i]);
  }
  return text + "L";
}

}  // namespace steelyard
