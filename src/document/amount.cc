#include "document/amount.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

namespace steelyard {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

// An exact decimal: `digits` / 10^places.
struct Decimal {
  std::int64_t digits = 0;
  int places = 0;
};

// Reads the number at the start and takes it off; separators may stand between digits only.
std::optional<Decimal> take_decimal(std::string_view& text) {
  Decimal number;
  bool point = false;
  bool any = false;
  bool negative = false;
  std::size_t i = 0;
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) negative = text[i++] == '-';
  for (; i < text.size(); ++i) {
    const char c = text[i];
    if (is_digit(c)) {
      any = true;
      if (point && ++number.places > 9) return std::nullopt;
      if (__builtin_mul_overflow(number.digits, std::int64_t{10}, &number.digits) ||
          __builtin_add_overflow(number.digits, std::int64_t{c - '0'}, &number.digits))
        return std::nullopt;
    } else if (c == '.' && !point && any) {
      point = true;
    } else if ((c == '_' || c == ',' || c == '\'') && any && i + 1 < text.size() &&
               is_digit(text[i + 1])) {
      continue;
    } else {
      break;
    }
  }
  if (!any) return std::nullopt;
  if (negative) number.digits = -number.digits;
  text.remove_prefix(i);
  text = trimmed(text);
  return number;
}

std::optional<std::int64_t> scaled(Decimal number, std::int64_t unit) {
  std::int64_t value = 0;
  if (__builtin_mul_overflow(number.digits, unit, &value)) return std::nullopt;
  for (int i = 0; i < number.places; ++i) {
    if (value % 10 != 0) return std::nullopt;
    value /= 10;
  }
  return value;
}

std::int64_t power(std::int64_t base, int exponent) {
  std::int64_t result = 1;
  for (int i = 0; i < exponent; ++i) result *= base;
  return result;
}

int exponent_of(char letter) {
  switch (lower(letter)) {
    case 'k':
      return 1;
    case 'm':
      return 2;
    case 'b':
    case 'g':
      return 3;
    case 't':
      return 4;
    default:
      return 0;
  }
}

}  // namespace

std::optional<std::int64_t> count_written(std::string_view text, std::int64_t kilo) {
  text = trimmed(text);
  const auto number = take_decimal(text);
  if (!number) return std::nullopt;
  if (text.empty()) return scaled(*number, 1);
  const int exponent = exponent_of(text[0]);
  if (exponent == 0) return std::nullopt;
  if (text.size() == 1) return scaled(*number, power(kilo, exponent));
  if (text.size() == 2 && text[1] == 'i') return scaled(*number, power(1024, exponent));
  return std::nullopt;
}

std::optional<std::int64_t> bytes_written(std::string_view text) {
  text = trimmed(text);
  const auto number = take_decimal(text);
  if (!number || text.empty() || lower(text.back()) != 'b') return std::nullopt;
  text.remove_suffix(1);
  if (text.empty()) return scaled(*number, 1);
  const int exponent = lower(text[0]) == 'b' ? 0 : exponent_of(text[0]);
  if (exponent == 0) return std::nullopt;
  if (text.size() == 1) return scaled(*number, power(1000, exponent));
  if (text.size() == 2 && lower(text[1]) == 'i') return scaled(*number, power(1024, exponent));
  return std::nullopt;
}

std::optional<double> bandwidth_written(std::string_view text) {
  constexpr std::array<std::string_view, 6> kBits = {"b/s", "bps", "bit/s", "bits/s", "bit", "b"};
  constexpr std::array<std::string_view, 3> kBytes = {"B/s", "Bps", "B"};
  text = trimmed(text);
  const auto number = take_decimal(text);
  if (!number || text.empty()) return std::nullopt;
  const int exponent = lower(text[0]) == 'b' ? 0 : exponent_of(text[0]);
  if (exponent == 0) return std::nullopt;
  text.remove_prefix(1);
  const bool bits = std::find(kBits.begin(), kBits.end(), text) != kBits.end();
  if (!bits && std::find(kBytes.begin(), kBytes.end(), text) == kBytes.end()) return std::nullopt;
  return static_cast<double>(number->digits) * std::pow(10.0, 3 * exponent - number->places) /
         (bits ? 8 : 1);
}

std::optional<double> number_written(std::string_view text) {
  text = trimmed(text);
  auto rest = text;
  const auto number = take_decimal(rest);
  if (!number) return std::nullopt;
  double value = static_cast<double>(number->digits) * std::pow(10.0, -number->places);
  if (rest.empty()) return value;
  if (lower(rest[0]) != 'e') return std::nullopt;
  rest.remove_prefix(1);
  const auto exponent = take_decimal(rest);
  if (!exponent || exponent->places != 0 || !rest.empty() || std::abs(exponent->digits) > 300)
    return std::nullopt;
  value *= std::pow(10.0, static_cast<double>(exponent->digits));
  return std::isfinite(value) ? std::optional(value) : std::nullopt;
}

}  // namespace steelyard
