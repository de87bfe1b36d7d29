#include "quantity/print.h"

#include <cmath>
#include <limits>

namespace steelyard {
namespace {

constexpr std::int64_t kKibi = 1024;
constexpr std::int64_t kGibi = kKibi * kKibi * kKibi;
constexpr std::int64_t kGiga = 1'000'000'000;

// The magnitude as an unsigned number: the smallest int64 has no positive twin.
std::uint64_t magnitude(std::int64_t value) {
  return value < 0 ? std::uint64_t{0} - static_cast<std::uint64_t>(value)
                   : static_cast<std::uint64_t>(value);
}

std::string grouped(std::uint64_t value) {
  std::string digits = std::to_string(value);
  for (std::size_t at = digits.size(); at > 3;) {
    at -= 3;
    digits.insert(at, ",");
  }
  return digits;
}

// value / unit with `decimals` digits after the point, rounded half away from zero.
std::string divided(std::uint64_t value, std::uint64_t unit, int decimals) {
  std::uint64_t scale = 1;
  for (int i = 0; i < decimals; ++i) scale *= 10;
  std::uint64_t whole = value / unit;
  // The rest is below the unit (at most 2^40), so the product stays far below 2^64.
  std::uint64_t fraction = (value % unit * scale + unit / 2) / unit;
  if (fraction == scale) {
    ++whole;
    fraction = 0;
  }
  if (decimals == 0) return grouped(whole);
  std::string digits = std::to_string(fraction);
  digits.insert(0, static_cast<std::size_t>(decimals) - digits.size(), '0');
  return grouped(whole) + '.' + digits;
}

// Three figures below ten, one decimal above.
std::string figures(std::uint64_t value, std::uint64_t unit) {
  std::string fine = divided(value, unit, 2);
  // 9.999 rounds to 10.00, which reads as 10.0.
  return fine.size() <= 4 ? fine : divided(value, unit, 1);
}

// A real number with `decimals` digits; what integers cannot hold keeps its exponent.
std::string real(double value, int decimals) {
  double scale = 1;
  for (int i = 0; i < decimals; ++i) scale *= 10;
  const double scaled = std::round(value * scale);
  if (!(scaled < 9e18)) return std::to_string(value);
  return divided(static_cast<std::uint64_t>(scaled), static_cast<std::uint64_t>(scale), decimals);
}

// Three figures: 1.23, 12.3, 123, 1,230.
std::string three_figures(double value) {
  if (value < 9.995) return real(value, 2);
  if (value < 99.95) return real(value, 1);
  return real(value, 0);
}

std::string unsigned_real(double value, std::string (*text)(double)) {
  if (std::isnan(value)) return "-";
  if (std::isinf(value)) return value < 0 ? "-unbounded" : "unbounded";
  const std::string printed = text(std::fabs(value));
  return value < 0 ? '-' + printed : printed;
}

struct Prefix {
  double size;
  const char* unit;
};

template <std::size_t Count>
std::string prefixed(double value, const Prefix (&prefixes)[Count]) {
  // A value that would round up to 1,000 of a unit is one of the next.
  for (const Prefix& prefix : prefixes)
    if (value >= prefix.size * 0.9995) return three_figures(value / prefix.size) + prefix.unit;
  return three_figures(value / prefixes[Count - 1].size) + prefixes[Count - 1].unit;
}

std::string seconds_text(double value) {
  if (value == 0) return "0 s";
  if (value >= 0.9995) return (value < 9.995 ? real(value, 2) : real(value, 1)) + " s";
  if (value >= 0.9995e-3)
    return (value < 9.995e-3 ? real(value * 1e3, 2) : real(value * 1e3, 0)) + " ms";
  return three_figures(value * 1e6) + " us";
}

std::string rate_text(double value) {
  static constexpr Prefix kPrefixes[] = {
      {1e12, " TB/s"}, {1e9, " GB/s"}, {1e6, " MB/s"}, {1, " B/s"}};
  // Links of a few TB/s are compared with links of hundreds of GB/s: one unit for both.
  if (value >= 1e12 && value < 1e13) return real(value / 1e9, 0) + " GB/s";
  return prefixed(value, kPrefixes);
}

std::string work_text(double value) {
  static constexpr Prefix kPrefixes[] = {{1e18, " EFLOP"}, {1e15, " PFLOP"}, {1e12, " TFLOP"},
                                         {1e9, " GFLOP"},  {1e6, " MFLOP"},  {1, " FLOP"}};
  return prefixed(value, kPrefixes);
}

std::string compute_text(double value) {
  static constexpr Prefix kPrefixes[] = {{1e12, " TFLOP/s"}, {1e9, " GFLOP/s"}, {1, " FLOP/s"}};
  return prefixed(value, kPrefixes);
}

}  // namespace

std::string_view memory_unit(Units units) {
  switch (units) {
    case Units::kBinary:
      return "GiB";
    case Units::kSi:
      return "GB";
    case Units::kBytes:
      return "B";
  }
  return "";
}

std::string print_memory(Bytes bytes, Units units) {
  const std::int64_t value = bytes.value().value();
  const std::uint64_t size = magnitude(value);
  std::string text;
  if (units == Units::kBytes) {
    text = grouped(size);
  } else {
    text = figures(size, static_cast<std::uint64_t>(units == Units::kSi ? kGiga : kGibi));
    if (size != 0 && text == "0.00") return value < 0 ? ">-0.01" : "<0.01";
  }
  return value < 0 ? '-' + text : text;
}

std::string print(Bytes bytes, Units units) {
  return print_memory(bytes, units) + ' ' + std::string(memory_unit(units));
}

std::string print_signed(Bytes bytes, Units units) {
  const bool gain = bytes.value().value() > 0;
  return (gain ? "+" : "") + print(bytes, units);
}

std::string print_exact(Bytes bytes) { return print_count(bytes.value()) + " B"; }

std::string print_block(Bytes bytes) {
  struct Step {
    std::uint64_t size;
    const char* unit;
  };
  static constexpr Step kSteps[] = {{std::uint64_t{1} << 30, " GiB"},
                                    {std::uint64_t{1} << 20, " MiB"},
                                    {std::uint64_t{1} << 10, " KiB"}};
  const std::int64_t value = bytes.value().value();
  const std::uint64_t size = magnitude(value);
  const std::string sign = value < 0 ? "-" : "";
  for (const Step& step : kSteps) {
    if (size < step.size) continue;
    if (size % step.size == 0) return sign + grouped(size / step.size) + step.unit;
    return sign + figures(size, step.size) + step.unit;
  }
  return sign + grouped(size) + " B";
}

std::string print(Seconds seconds) { return unsigned_real(seconds.value(), seconds_text); }

std::string print_signed(Seconds seconds) {
  return (seconds.value() > 0 ? "+" : "") + print(seconds);
}

std::string print(BytesPerSecond rate) { return unsigned_real(rate.value(), rate_text); }
std::string print(Flops work) { return unsigned_real(work.value(), work_text); }
std::string print(FlopsPerSecond rate) { return unsigned_real(rate.value(), compute_text); }

std::string print_count(Checked count) {
  const std::string digits = grouped(magnitude(count.value()));
  return count.value() < 0 ? '-' + digits : digits;
}

std::string print(Elements elements) { return print_count(elements.value()); }

std::string print_parameters(Checked count) {
  const std::uint64_t size = magnitude(count.value());
  const std::string sign = count.value() < 0 ? "-" : "";
  // 999,950,000 would read 1,000.0 M: it is 1.00 B.
  if (size >= 999'500'000) return sign + figures(size, 1'000'000'000) + " B";
  if (size >= 10'000'000) return sign + divided(size, 1'000'000, 0) + " M";
  if (size >= 1'000'000) return sign + figures(size, 1'000'000) + " M";
  return sign + grouped(size);
}

std::string print_percent(double fraction) {
  return unsigned_real(fraction * 100, [](double value) { return real(value, 0) + " %"; });
}

}  // namespace steelyard
