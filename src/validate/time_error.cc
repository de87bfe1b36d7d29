#include "validate/time_error.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace steelyard {

namespace {

double median_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

// Equal values share the mean of their ranks.
std::vector<double> ranks_of(const std::vector<double>& values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return values[a] < values[b]; });
  std::vector<double> ranks(values.size());
  for (std::size_t first = 0; first < order.size();) {
    std::size_t last = first;
    while (last + 1 < order.size() && values[order[last + 1]] == values[order[first]]) ++last;
    for (std::size_t i = first; i <= last; ++i)
      ranks[order[i]] = static_cast<double>(first + last) / 2;
    first = last + 1;
  }
  return ranks;
}

double correlation(const std::vector<double>& a, const std::vector<double>& b) {
  const double mean = (static_cast<double>(a.size()) - 1) / 2;  // of any ranks
  double both = 0, of_a = 0, of_b = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    both += (a[i] - mean) * (b[i] - mean);
    of_a += (a[i] - mean) * (a[i] - mean);
    of_b += (b[i] - mean) * (b[i] - mean);
  }
  return of_a > 0 && of_b > 0 ? both / std::sqrt(of_a * of_b) : 0;
}

}  // namespace

TimeFigures TimeErrors::figures() const {
  TimeFigures figures;
  figures.rows = static_cast<std::int64_t>(pairs_.size());
  if (pairs_.empty()) return figures;
  std::vector<double> measured, predicted, errors, sizes;
  for (const TimePair& pair : pairs_) {
    measured.push_back(pair.measured);
    predicted.push_back(pair.predicted);
    errors.push_back(100 * (pair.predicted / pair.measured - 1));
    sizes.push_back(std::abs(errors.back()));
    if (pair.low <= pair.measured && pair.measured <= pair.high) ++figures.in_band;
  }
  const double middle = median_of(measured);
  for (const double seconds : measured) figures.of_median += 100 * std::abs(middle / seconds - 1);
  const auto count = static_cast<double>(pairs_.size());
  figures.of_median /= count;
  figures.mean = std::accumulate(sizes.begin(), sizes.end(), 0.0) / count;
  figures.median = median_of(sizes);
  figures.largest = *std::max_element(sizes.begin(), sizes.end());
  figures.bias = median_of(errors);
  if (pairs_.size() > 2)
    figures.rank_correlation = correlation(ranks_of(measured), ranks_of(predicted));
  return figures;
}

}  // namespace steelyard
