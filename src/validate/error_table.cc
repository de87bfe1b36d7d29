#include "validate/error_table.h"

#include <algorithm>
#include <cmath>

namespace steelyard {
namespace {

// The smallest of the sorted values that at least this part of them does not pass.
double nearest_rank(const std::vector<double>& sorted, double part) {
  const auto rank = static_cast<std::size_t>(std::ceil(part * static_cast<double>(sorted.size())));
  return sorted[std::clamp<std::size_t>(rank, 1, sorted.size()) - 1];
}

}  // namespace

double percent_error(Bytes measured, Bytes predicted) {
  const auto of = [](Bytes bytes) { return static_cast<double>(bytes.value().value()); };
  return 100.0 * (of(predicted) / of(measured) - 1.0);
}

void ErrorTable::add(Bytes measured, Bytes predicted, std::optional<bool> in_band) {
  errors_.push_back(percent_error(measured, predicted));
  if (measured == predicted) ++equal_;
  if (in_band) in_band_ = in_band_.value_or(0) + (*in_band ? 1 : 0);
}

ErrorFigures ErrorTable::figures() const {
  ErrorFigures figures;
  figures.rows = static_cast<std::int64_t>(errors_.size());
  figures.equal = equal_;
  figures.in_band = in_band_;
  if (errors_.empty()) return figures;
  double sum = 0;
  std::vector<double> sizes;
  sizes.reserve(errors_.size());
  for (const double error : errors_) {
    sum += error;
    sizes.push_back(std::abs(error));
  }
  std::sort(sizes.begin(), sizes.end());
  figures.bias = sum / static_cast<double>(errors_.size());
  figures.median = nearest_rank(sizes, 0.5);
  figures.percentile_95 = nearest_rank(sizes, 0.95);
  figures.largest = sizes.back();
  return figures;
}

void OutcomeFigures::add(bool out_of_memory, Verdict verdict) {
  Said& said = out_of_memory ? died : ran;
  switch (verdict) {
    case Verdict::kFits:
      ++said.fits;
      break;
    case Verdict::kTight:
      ++said.tight;
      break;
    case Verdict::kDoesNotFit:
      ++said.does_not_fit;
      break;
  }
}

}  // namespace steelyard
