#include "evidence/printed.h"

#include <array>
#include <cmath>
#include <cstdlib>

namespace steelyard {
namespace {

struct PrintedUnit {
  std::string_view name;
  double bytes;
};
// A longer name stands before one that it begins with.
constexpr std::array<PrintedUnit, 17> kPrintedUnits = {{{"bytes", 1.0},
                                                        {"byte", 1.0},
                                                        {"KiB", kKibibyte},
                                                        {"MiB", kMebibyte},
                                                        {"GiB", kGibibyte},
                                                        {"TiB", 1024.0 * kGibibyte},
                                                        {"PiB", 1024.0 * 1024.0 * kGibibyte},
                                                        {"kB", kKibibyte},
                                                        {"KB", kKibibyte},
                                                        {"MB", kMebibyte},
                                                        {"GB", kGibibyte},
                                                        {"TB", 1024.0 * kGibibyte},
                                                        {"K", kKibibyte},
                                                        {"M", kMebibyte},
                                                        {"G", kGibibyte},
                                                        {"T", 1024.0 * kGibibyte},
                                                        {"B", 1.0}}};

constexpr double kNoDevice = 1152921504606846976.0;  // 2^60

}  // namespace

bool is_printed_digit(char c) { return c >= '0' && c <= '9'; }

bool is_printed_word(char c) {
  return is_printed_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

std::string_view without_spaces(std::string_view text) {
  const auto is_space = [](char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; };
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

std::optional<std::string_view> behind(std::string_view text, std::string_view label) {
  const std::size_t at = text.find(label);
  if (at == std::string_view::npos) return std::nullopt;
  return text.substr(at + label.size());
}

std::optional<std::string_view> behind_word(std::string_view text, std::string_view label) {
  for (std::size_t at = text.find(label); at != std::string_view::npos;
       at = text.find(label, at + 1))
    if (at == 0 || !is_printed_word(text[at - 1])) return text.substr(at + label.size());
  return std::nullopt;
}

std::optional<double> take_printed_number(std::string_view& rest) {
  std::size_t at = 0;
  while (at < rest.size() && rest[at] == ' ') ++at;
  // A number of a log is short; what is longer is something else.
  std::array<char, 48> digits{};
  std::size_t size = 0;
  bool any = false, point = false;
  const auto put = [&](char c) {
    if (size + 1 >= digits.size()) return false;
    digits[size++] = c;
    return true;
  };
  if (at < rest.size() && (rest[at] == '-' || rest[at] == '+'))
    if (!put(rest[at++])) return std::nullopt;
  for (; at < rest.size(); ++at) {
    const char c = rest[at];
    if (is_printed_digit(c)) {
      if (!put(c)) return std::nullopt;
      any = true;
    } else if (c == '.' && !point && any && at + 1 < rest.size() &&
               is_printed_digit(rest[at + 1])) {
      if (!put(c)) return std::nullopt;
      point = true;
    } else if (c == ',' && any && !point && at + 3 < rest.size() &&
               is_printed_digit(rest[at + 1]) && is_printed_digit(rest[at + 2]) &&
               is_printed_digit(rest[at + 3]) &&
               !(at + 4 < rest.size() && is_printed_digit(rest[at + 4]))) {
      continue;  // 1,234,567
    } else {
      break;
    }
  }
  if (!any) return std::nullopt;
  if (at + 1 < rest.size() && (rest[at] == 'e' || rest[at] == 'E')) {
    std::size_t exponent = at + 1;
    if (rest[exponent] == '-' || rest[exponent] == '+') ++exponent;
    if (exponent < rest.size() && is_printed_digit(rest[exponent])) {
      for (; at < exponent; ++at)
        if (!put(rest[at])) return std::nullopt;
      for (; at < rest.size() && is_printed_digit(rest[at]); ++at)
        if (!put(rest[at])) return std::nullopt;
    }
  }
  digits[size] = '\0';
  const double number = std::strtod(digits.data(), nullptr);
  if (!std::isfinite(number)) return std::nullopt;
  rest.remove_prefix(at);
  return number;
}

std::optional<std::int64_t> take_printed_integer(std::string_view& rest) {
  std::size_t at = 0;
  while (at < rest.size() && rest[at] == ' ') ++at;
  bool negative = false;
  if (at < rest.size() && (rest[at] == '-' || rest[at] == '+')) negative = rest[at++] == '-';
  const std::size_t begin = at;
  std::int64_t number = 0;
  for (; at < rest.size() && is_printed_digit(rest[at]); ++at) {
    if (__builtin_mul_overflow(number, 10, &number) ||
        __builtin_add_overflow(number, rest[at] - '0', &number))
      return std::nullopt;
  }
  if (at == begin) return std::nullopt;
  rest.remove_prefix(at);
  return negative ? -number : number;
}

std::optional<Bytes> take_printed_size(std::string_view& rest) {
  std::string_view after = rest;
  const auto number = take_printed_number(after);
  if (!number) return std::nullopt;
  while (after.starts_with(' ')) after.remove_prefix(1);
  for (const PrintedUnit& unit : kPrintedUnits) {
    if (!after.starts_with(unit.name)) continue;
    if (after.size() > unit.name.size() && is_printed_word(after[unit.name.size()])) continue;
    rest = after.substr(unit.name.size());
    return printed_bytes(*number, unit.bytes);
  }
  return std::nullopt;
}

std::optional<double> number_behind(std::string_view text, std::string_view label) {
  auto rest = behind_word(text, label);
  return rest ? take_printed_number(*rest) : std::nullopt;
}

std::optional<std::int64_t> integer_behind(std::string_view text, std::string_view label) {
  auto rest = behind_word(text, label);
  return rest ? take_printed_integer(*rest) : std::nullopt;
}

std::optional<Bytes> size_behind(std::string_view text, std::string_view label) {
  auto rest = behind_word(text, label);
  return rest ? take_printed_size(*rest) : std::nullopt;
}

std::optional<Bytes> size_behind(std::string_view text, std::string_view label, double unit) {
  const auto number = number_behind(text, label);
  return number ? printed_bytes(*number, unit) : std::nullopt;
}

std::optional<Bytes> size_before(std::string_view text, std::string_view label) {
  const std::size_t end = text.find(label);
  if (end == std::string_view::npos) return std::nullopt;
  const std::string_view before = text.substr(0, end);
  // A unit, a space, a number: the number begins behind the last sign that is none of these.
  std::size_t begin = before.size();
  while (begin > 0 && (is_printed_word(before[begin - 1]) || before[begin - 1] == ' ')) {
    if (is_printed_digit(before[begin - 1])) break;
    --begin;
  }
  while (begin > 0 && (is_printed_digit(before[begin - 1]) || before[begin - 1] == '.')) --begin;
  std::string_view rest = before.substr(begin);
  return take_printed_size(rest);
}

std::optional<Bytes> printed_bytes(double amount, double unit) {
  const double bytes = amount * unit;
  if (!(bytes >= 0.0) || bytes >= kNoDevice) return std::nullopt;
  return Bytes(std::llround(bytes));
}

}  // namespace steelyard
