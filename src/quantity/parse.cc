#include "quantity/parse.h"

#include <cmath>
#include <optional>
#include <span>

namespace steelyard {
namespace {

// A decimal number as written: digits x 10^exponent. "79.10" is 7910 x 10^-2.
struct Decimal {
  std::int64_t digits = 0;
  int exponent = 0;
};

struct Unit {
  std::string_view name;
  std::int64_t size;
};

bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

std::string quoted(std::string_view text) { return '"' + std::string(text) + '"'; }

tl::unexpected<ParseProblem> problem(std::string message) {
  return tl::unexpected(ParseProblem{std::move(message)});
}

tl::unexpected<ParseProblem> too_large(std::string_view text) {
  return problem(quoted(text) + " is larger than a 64-bit number can count");
}

// Takes the number off the front of `rest`, which is the end of `whole`. Digits may be grouped by
// "_" or ",", which must stand between digits.
Parsed<Decimal> take_decimal(std::string_view whole, std::string_view& rest) {
  Decimal number;
  std::size_t at = 0;
  bool negative = false;
  if (at < rest.size() && (rest[at] == '-' || rest[at] == '+')) negative = rest[at++] == '-';
  bool any = false;
  bool point = false;
  for (; at < rest.size(); ++at) {
    const char c = rest[at];
    if (is_digit(c)) {
      std::int64_t next{};
      if (__builtin_mul_overflow(number.digits, 10, &next) ||
          __builtin_add_overflow(next, c - '0', &next))
        return too_large(whole);
      number.digits = next;
      if (point) --number.exponent;
      any = true;
    } else if (c == '.' && !point) {
      point = true;
    } else if ((c == '_' || c == ',') && !point && any && at + 1 < rest.size() &&
               is_digit(rest[at + 1])) {
      continue;
    } else {
      break;
    }
  }
  if (!any) return problem(quoted(whole) + " is not a number");
  // An exponent needs digits after it: the "E" of a unit is no exponent.
  if (at < rest.size() && (rest[at] == 'e' || rest[at] == 'E')) {
    std::size_t digit = at + 1;
    bool down = false;
    if (digit < rest.size() && (rest[digit] == '-' || rest[digit] == '+'))
      down = rest[digit++] == '-';
    if (digit < rest.size() && is_digit(rest[digit])) {
      int exponent = 0;
      for (; digit < rest.size() && is_digit(rest[digit]); ++digit)
        exponent = exponent < 1000 ? exponent * 10 + (rest[digit] - '0') : exponent;
      number.exponent += down ? -exponent : exponent;
      at = digit;
    }
  }
  // Trailing zeros after the point say nothing about the size.
  while (number.exponent < 0 && number.digits % 10 == 0 && number.digits != 0) {
    number.digits /= 10;
    ++number.exponent;
  }
  if (negative) number.digits = -number.digits;
  rest.remove_prefix(at);
  return number;
}

// number x unit, to the nearest integer, or nothing when it leaves 64 bits.
std::optional<std::int64_t> scaled(const Decimal& number, std::int64_t unit) {
  std::int64_t digits = number.digits;
  if (digits == 0) return 0;
  for (int i = 0; i < number.exponent; ++i)
    if (__builtin_mul_overflow(digits, 10, &digits)) return std::nullopt;
  if (number.exponent >= 0) {
    std::int64_t result{};
    if (__builtin_mul_overflow(digits, unit, &result)) return std::nullopt;
    return result;
  }
  if (number.exponent < -18) return 0;
  std::int64_t divisor = 1;
  for (int i = number.exponent; i < 0; ++i) divisor *= 10;
  // whole x unit + rest x unit / divisor: the rest is below the divisor, and only many decimals of
  // a large unit leave 64 bits; double is then exact to far below a byte of rounding.
  std::int64_t result{};
  if (__builtin_mul_overflow(digits / divisor, unit, &result)) return std::nullopt;
  const std::int64_t rest = digits % divisor;
  std::int64_t product{};
  std::int64_t fraction{};
  if (!__builtin_mul_overflow(rest, unit, &product)) {
    const std::int64_t half = divisor / 2;
    fraction = product / divisor;
    const std::int64_t left = product % divisor;
    if (left >= half && left > 0) ++fraction;
    if (left <= -half && left < 0) --fraction;
  } else {
    fraction = std::llround(static_cast<double>(rest) / static_cast<double>(divisor) *
                            static_cast<double>(unit));
  }
  if (__builtin_add_overflow(result, fraction, &result)) return std::nullopt;
  return result;
}

double real(const Decimal& number) {
  double value = static_cast<double>(number.digits);
  // Up to 15 digits and 22 powers of ten this is the nearest double: both factors are exact.
  double power = 1;
  const int steps = number.exponent < 0 ? -number.exponent : number.exponent;
  for (int i = 0; i < steps && i < 400; ++i) power *= 10;
  return number.exponent < 0 ? value / power : value * power;
}

constexpr std::int64_t kKibi = 1024;
constexpr Unit kBytes[] = {
    {"B", 1},
    {"bytes", 1},
    {"KiB", kKibi},
    {"MiB", kKibi* kKibi},
    {"GiB", kKibi* kKibi* kKibi},
    {"TiB", kKibi* kKibi* kKibi* kKibi},
    {"PiB", kKibi* kKibi* kKibi* kKibi* kKibi},
    {"kB", 1'000},
    {"KB", 1'000},
    {"MB", 1'000'000},
    {"GB", 1'000'000'000},
    {"TB", 1'000'000'000'000},
    {"PB", 1'000'000'000'000'000},
};
constexpr Unit kByteRates[] = {
    {"B/s", 1},
    {"kB/s", 1'000},
    {"MB/s", 1'000'000},
    {"GB/s", 1'000'000'000},
    {"TB/s", 1'000'000'000'000},
    {"MiB/s", kKibi* kKibi},
    {"GiB/s", kKibi* kKibi* kKibi},
};
constexpr Unit kWorkRates[] = {
    {"FLOP/s", 1},
    {"GFLOP/s", 1'000'000'000},
    {"TFLOP/s", 1'000'000'000'000},
    {"PFLOP/s", 1'000'000'000'000'000},
    {"TOP/s", 1'000'000'000'000},
    {"POP/s", 1'000'000'000'000'000},
};

struct Written {
  Decimal number;
  std::string_view unit;
};

Parsed<Written> split(std::string_view text) {
  std::string_view rest = trimmed(text);
  auto number = take_decimal(text, rest);
  if (!number) return tl::unexpected(number.error());
  return Written{*number, trimmed(rest)};
}

std::string names_of(std::span<const Unit> units) {
  std::string names;
  for (const Unit& unit : units) names += (names.empty() ? "" : ", ") + std::string(unit.name);
  return names;
}

Parsed<const Unit*> unit_named(std::string_view text, const Written& written,
                               std::span<const Unit> units, std::string_view usual) {
  if (written.unit.empty())
    return problem(quoted(text) + " has no unit: write it as " +
                   quoted(std::string(trimmed(text)) + ' ' + std::string(usual)));
  for (const Unit& unit : units)
    if (unit.name == written.unit) return &unit;
  return problem(quoted(written.unit) + " is not one of the units " + names_of(units));
}

Parsed<double> real_with_unit(std::string_view text, std::span<const Unit> units,
                              std::string_view usual) {
  auto written = split(text);
  if (!written) return tl::unexpected(written.error());
  auto unit = unit_named(text, *written, units, usual);
  if (!unit) return tl::unexpected(unit.error());
  return real(written->number) * static_cast<double>((*unit)->size);
}

}  // namespace

Parsed<Bytes> parse_bytes(std::string_view text) {
  auto written = split(text);
  if (!written) return tl::unexpected(written.error());
  auto unit = unit_named(text, *written, kBytes, "GiB");
  if (!unit) return tl::unexpected(unit.error());
  const auto bytes = scaled(written->number, (*unit)->size);
  if (!bytes) return too_large(text);
  return Bytes(*bytes);
}

Parsed<BytesPerSecond> parse_bytes_per_second(std::string_view text) {
  auto value = real_with_unit(text, kByteRates, "GB/s");
  if (!value) return tl::unexpected(value.error());
  return BytesPerSecond(*value);
}

Parsed<FlopsPerSecond> parse_flops_per_second(std::string_view text) {
  auto value = real_with_unit(text, kWorkRates, "TFLOP/s");
  if (!value) return tl::unexpected(value.error());
  return FlopsPerSecond(*value);
}

Parsed<Seconds> parse_seconds(std::string_view text) {
  // Divisors of a second stand as such, so that "1.5 ms" is the double nearest to 0.0015.
  static constexpr Unit kDivisors[] = {
      {"s", 1}, {"ms", 1'000}, {"us", 1'000'000}, {"ns", 1'000'000'000}};
  static constexpr Unit kMultiples[] = {{"min", 60}, {"h", 3600}};
  auto written = split(text);
  if (!written) return tl::unexpected(written.error());
  for (const Unit& unit : kMultiples)
    if (unit.name == written->unit)
      return Seconds(real(written->number) * static_cast<double>(unit.size));
  auto unit = unit_named(text, *written, kDivisors, "s");
  if (!unit) return tl::unexpected(unit.error());
  return Seconds(real(written->number) / static_cast<double>((*unit)->size));
}

Parsed<std::int64_t> parse_count(std::string_view text, CountSuffix suffix, bool* suffixed) {
  static constexpr Unit kDecimal[] = {{"k", 1'000},
                                      {"K", 1'000},
                                      {"M", 1'000'000},
                                      {"m", 1'000'000},
                                      {"B", 1'000'000'000},
                                      {"b", 1'000'000'000},
                                      {"G", 1'000'000'000},
                                      {"T", 1'000'000'000'000},
                                      {"t", 1'000'000'000'000}};
  static constexpr Unit kBinary[] = {
      {"k", kKibi}, {"K", kKibi}, {"M", kKibi * kKibi}, {"m", kKibi * kKibi}};
  if (suffixed != nullptr) *suffixed = false;
  auto written = split(text);
  if (!written) return tl::unexpected(written.error());
  std::int64_t size = 1;
  if (!written->unit.empty()) {
    const std::span<const Unit> known =
        suffix == CountSuffix::kDecimal  ? std::span<const Unit>(kDecimal)
        : suffix == CountSuffix::kBinary ? std::span<const Unit>(kBinary)
                                         : std::span<const Unit>();
    for (const Unit& unit : known)
      if (unit.name == written->unit) size = unit.size;
    if (size == 1) return problem(quoted(text) + " is not a whole number");
    if (suffixed != nullptr) *suffixed = true;
  }
  const auto count = scaled(written->number, size);
  if (!count) return too_large(text);
  // 1.5k is 1,500; 1.0005k would lose half a thing.
  if (written->number.exponent < 0) {
    const double exact = real(written->number) * static_cast<double>(size);
    if (exact != static_cast<double>(*count))
      return problem(quoted(text) + " is not a whole number");
  }
  return *count;
}

Parsed<double> parse_number(std::string_view text) {
  auto written = split(text);
  if (!written) return tl::unexpected(written.error());
  if (!written->unit.empty()) return problem(quoted(text) + " is not a number");
  return real(written->number);
}

Parsed<double> parse_fraction(std::string_view text) {
  auto written = split(text);
  if (!written) return tl::unexpected(written.error());
  if (written->unit == "%") return real(written->number) / 100;
  if (!written->unit.empty()) return problem(quoted(text) + " is not a fraction");
  return real(written->number);
}

}  // namespace steelyard
