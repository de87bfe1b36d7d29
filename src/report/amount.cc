#include "report/amount.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>

#include "quantity/print.h"

namespace steelyard {
namespace {

std::int64_t power_of_ten(int exponent) {
  std::int64_t result = 1;
  while (exponent-- > 0) result *= 10;
  return result;
}

double exact_ticks(Bytes bytes, const Scale& scale) {
  return static_cast<double>(bytes.value().value()) / static_cast<double>(scale.unit_bytes) *
         static_cast<double>(power_of_ten(scale.decimals));
}

}  // namespace

Scale scale_for(Bytes largest, Units units) {
  if (units == Units::kBytes) return {"B", 1, 0};
  const bool decimal = units == Units::kSi;
  Scale scale{std::string(memory_unit(units)), decimal ? 1'000'000'000 : std::int64_t{1} << 30, 1};
  const double size = std::abs(static_cast<double>(largest.value().value())) /
                      static_cast<double>(scale.unit_bytes);
  // 9.996 prints as 10.0, so the border stands where rounding would pass it.
  if (size < 9.995) scale.decimals = 2;
  if (size < 0.9995) scale.decimals = 3;
  return scale;
}

std::int64_t ticks_of(Bytes bytes, const Scale& scale) {
  return std::llround(exact_ticks(bytes, scale));
}

std::string number_of_ticks(std::int64_t ticks, const Scale& scale) {
  if (scale.decimals == 0) return print_count(ticks);
  const std::int64_t unit = power_of_ten(scale.decimals);
  const std::int64_t size = std::abs(ticks);
  return fmt::format("{}{}.{:0{}}", ticks < 0 ? "-" : "", print_count(size / unit), size % unit,
                     scale.decimals);
}

std::string number_of(Bytes bytes, const Scale& scale) {
  return number_of_ticks(ticks_of(bytes, scale), scale);
}

std::string signed_number_of_ticks(std::int64_t ticks, const Scale& scale) {
  return (ticks > 0 ? "+" : "") + number_of_ticks(ticks, scale);
}

std::string amount_of(Bytes bytes, const Scale& scale) {
  return number_of(bytes, scale) + " " + scale.unit;
}

std::vector<std::int64_t> apportioned(const std::vector<Bytes>& parts, const Scale& scale) {
  Bytes total{};
  for (const Bytes part : parts) total += part;
  std::vector<std::int64_t> ticks;
  std::vector<double> remainders;
  for (const Bytes part : parts) {
    const double exact = exact_ticks(part, scale);
    const double down = std::floor(exact);
    ticks.push_back(static_cast<std::int64_t>(down));
    remainders.push_back(exact - down);
  }
  std::vector<std::size_t> order(parts.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return remainders[a] > remainders[b]; });
  std::int64_t missing =
      ticks_of(total, scale) - std::accumulate(ticks.begin(), ticks.end(), std::int64_t{0});
  for (std::size_t i = 0; missing > 0 && i < order.size(); ++i, --missing) ++ticks[order[i]];
  return ticks;
}

std::string percent_of(Bytes part, Bytes whole) {
  if (whole == Bytes()) return "-";
  return print_percent(static_cast<double>(part.value().value()) /
                       static_cast<double>(whole.value().value()));
}

}  // namespace steelyard
