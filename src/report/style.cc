#include "report/style.h"

#include <array>
#include <utility>

#include "document/printable.h"

namespace steelyard {
namespace {

bool continues(char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U; }

std::string_view code_of(Ink ink) {
  switch (ink) {
    case Ink::kPlain:
      return "";
    case Ink::kStrong:
      return "1";
    case Ink::kQuiet:
      return "2";
    case Ink::kGood:
      return "1;32";
    case Ink::kWarning:
      return "1;33";
    case Ink::kBad:
      return "1;31";
  }
  return "";
}

// End of the colour sequence that starts at `at`, or `at` when there is none.
std::size_t after_sequence(std::string_view text, std::size_t at) {
  if (text[at] != '\x1b' || at + 1 >= text.size() || text[at + 1] != '[') return at;
  const std::size_t end = text.find('m', at);
  return end == std::string_view::npos ? text.size() : end + 1;
}

}  // namespace

std::string painted(const Style& style, Ink ink, std::string_view text) {
  if (!style.colour || ink == Ink::kPlain || text.empty()) return std::string(text);
  return colour_sequence(style.seal, code_of(ink)).append(text) + colour_sequence(style.seal, "0");
}

int columns_of(std::string_view text) {
  int columns = 0;
  for (std::size_t at = 0; at < text.size();) {
    if (const std::size_t next = after_sequence(text, at); next != at) {
      at = next;
      continue;
    }
    if (!continues(text[at])) ++columns;
    ++at;
  }
  return columns;
}

std::string padded_right(std::string text, int columns) {
  const int missing = columns - columns_of(text);
  if (missing > 0) text.append(static_cast<std::size_t>(missing), ' ');
  return text;
}

std::string padded_left(std::string text, int columns) {
  const int missing = columns - columns_of(text);
  if (missing > 0) text.insert(0, static_cast<std::size_t>(missing), ' ');
  return text;
}

std::string shortened(const Style& style, std::string_view text, int columns) {
  if (columns_of(text) <= columns) return std::string(text);
  const std::string_view mark = style.ascii ? "..." : "…";
  const int kept = columns - columns_of(mark);
  std::string result;
  int seen = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (!continues(text[at]) && ++seen > kept) break;
    result.push_back(text[at]);
  }
  while (!result.empty() && result.back() == ' ') result.pop_back();
  return result.append(mark);
}

std::string_view dot(const Style& style) { return style.ascii ? " - " : " · "; }
std::string_view times(const Style& style) { return style.ascii ? "x" : "×"; }

std::string facts(const Style& style, const std::vector<std::string>& parts, int indent) {
  std::string result;
  int column = indent;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const int wide = columns_of(parts[i]);
    if (i > 0) {
      if (column + columns_of(dot(style)) + wide > style.width) {
        result.append("\n").append(static_cast<std::size_t>(indent), ' ');
        column = indent;
      } else {
        result.append(dot(style));
        column += columns_of(dot(style));
      }
    }
    result.append(parts[i]);
    column += wide;
  }
  return result;
}

std::string wrapped(const Style& style, std::string_view text, int indent) {
  std::string result;
  int column = indent;
  bool first = true;
  while (!text.empty()) {
    const std::size_t start = text.find_first_not_of(' ');
    if (start == std::string_view::npos) break;
    text.remove_prefix(start);
    const std::string_view word = text.substr(0, text.find(' '));
    text.remove_prefix(word.size());
    const int wide = columns_of(word);
    if (!first && column + 1 + wide > style.width) {
      result.append("\n").append(static_cast<std::size_t>(indent), ' ');
      column = indent;
    } else if (!first) {
      result.push_back(' ');
      ++column;
    }
    result.append(word);
    column += wide;
    first = false;
  }
  return result;
}

std::string plain_characters(std::string_view text) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 16> kSpellings = {
      {{"·", "*"},
       {"×", "x"},
       {"─", "-"},
       {"│", "|"},
       {"…", "..."},
       {"→", "->"},
       {"←", "<-"},
       {"–", "-"},
       {"—", "-"},
       {"±", "+-"},
       {"≤", "<="},
       {"≥", ">="},
       {"░", ":"},
       {"█", "#"},
       {"²", "^2"},
       {"’", "'"}}};
  std::string result;
  for (std::size_t at = 0; at < text.size();) {
    if ((static_cast<unsigned char>(text[at]) & 0x80U) == 0) {
      result.push_back(text[at++]);
      continue;
    }
    std::size_t end = at + 1;
    while (end < text.size() && continues(text[end])) ++end;
    const std::string_view character = text.substr(at, end - at);
    std::string_view spelling = "?";
    for (const auto& [from, to] : kSpellings)
      if (from == character) spelling = to;
    result.append(spelling);
    at = end;
  }
  return result;
}

}  // namespace steelyard
