// A slip of the fingers, for tests of suggested names.
#pragma once

#include <random>
#include <string>
#include <utility>

namespace steelyard {

// One letter swapped with its neighbour, left out, doubled or changed to the next. Digits are spared: 7b for 8b is another
// model, not a slip.
inline std::string slipped(std::string word, std::mt19937& random) {
  const auto is_letter = [](char c) { return c >= 'a' && c <= 'z'; };
  const auto pick = [&](std::size_t count) {
    return std::uniform_int_distribution<std::size_t>(0, count - 1)(random);
  };
  for (int attempt = 0; attempt < 50; ++attempt) {
    const std::size_t at = pick(word.size());
    if (!is_letter(word[at])) continue;
    switch (pick(4)) {
      case 0:
        if (at + 1 >= word.size() || word[at] == word[at + 1] || !is_letter(word[at + 1])) continue;
        std::swap(word[at], word[at + 1]);
        return word;
      case 1:
        return word.erase(at, 1);
      case 2:
        return word.insert(at, 1, word[at]);
      default:
        word[at] = static_cast<char>(word[at] == 'z' ? 'y' : word[at] + 1);
        return word;
    }
  }
  return word;
}

}  // namespace steelyard
