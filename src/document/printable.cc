#include "document/printable.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>

namespace steelyard {
namespace {

// All that report/style.cc and document/render.cc paint with.
constexpr std::array<std::string_view, 8> kColours = {"0",  "1",    "2",    "31",
                                                      "33", "1;31", "1;32", "1;33"};

constexpr std::uint32_t kNoCharacter = 0xFFFD;

struct Character {
  std::uint32_t point = kNoCharacter;
  std::size_t length = 1;
  bool valid = false;
};

// What begins at `at`; of bytes that are no UTF-8 the first alone.
Character character_at(std::string_view text, std::size_t at) {
  const auto first = static_cast<unsigned char>(text[at]);
  if (first < 0x80U) return {first, 1, true};
  const std::size_t length = first >= 0xF0U && first < 0xF5U   ? 4
                             : first >= 0xE0U && first < 0xF0U ? 3
                             : first >= 0xC2U && first < 0xE0U ? 2
                                                               : 0;
  if (length == 0 || at + length > text.size()) return {};
  std::uint32_t point = first & (0x7FU >> length);
  for (std::size_t i = 1; i < length; ++i) {
    const auto byte = static_cast<unsigned char>(text[at + i]);
    if ((byte & 0xC0U) != 0x80U) return {};
    point = (point << 6U) | (byte & 0x3FU);
  }
  const bool overlong = (length == 3 && point < 0x800U) || (length == 4 && point < 0x10000U);
  if (overlong || point > 0x10FFFFU || (point >= 0xD800U && point < 0xE000U)) return {};
  return {point, length, true};
}

bool steers(std::uint32_t point) {
  return point < 0x20U || (point >= 0x7FU && point < 0xA0U) || point == 0x61CU ||
         (point >= 0x200EU && point <= 0x200FU) || (point >= 0x2028U && point <= 0x202EU) ||
         (point >= 0x2066U && point <= 0x2069U);
}

template <class Shown>
std::string replaced(std::string_view text, const Shown& shown) {
  std::string result;
  result.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const Character character = character_at(text, at);
    const std::string_view raw = text.substr(at, character.length);
    if (character.valid && !steers(character.point)) {
      result += raw;
      at += character.length;
    } else {
      at += shown(character, at, result);
    }
  }
  return result;
}

std::string numbered(const Character& character) {
  return character.valid ? fmt::format("\\u{:04x}", character.point) : "\xEF\xBF\xBD";
}

}  // namespace

std::string colour_sequence(std::string_view seal, std::string_view code) {
  return fmt::format("\x1b[{}{}m", seal, code);
}

std::string harmless(std::string_view text, const std::string* seal) {
  return replaced(text, [&](const Character& character, std::size_t at, std::string& result) {
    const char c = text[at];
    if (c == '\n' || c == '\t') {
      result.push_back(c);
      return character.length;
    }
    if (seal != nullptr && c == '\x1b')
      for (const std::string_view code : kColours)
        if (const std::string sealed = colour_sequence(*seal, code);
            text.substr(at).starts_with(sealed)) {
          result += colour_sequence("", code);
          return sealed.size();
        }
    result += numbered(character);
    return character.length;
  });
}

std::string printable(std::string_view text) {
  return replaced(text, [&](const Character& character, std::size_t at, std::string& result) {
    const char c = text[at];
    result += c == '\n' ? "\\n" : c == '\t' ? "\\t" : c == '\r' ? "\\r" : numbered(character);
    return character.length;
  });
}

std::string printable_in_place(std::string_view text) {
  return replaced(text, [&](const Character& character, std::size_t at, std::string& result) {
    result.push_back(text[at] == '\t' ? ' ' : '.');
    return character.length;
  });
}

}  // namespace steelyard
