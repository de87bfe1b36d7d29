#include "cost/time_terms.h"

#include <numeric>

namespace steelyard {

namespace {

constexpr std::array<std::string_view, kTimeTerms> kNames = {
    "compute",  "recompute", "tensor",  "context",   "expert", "data",
    "pipeline", "bubble",    "offload", "optimizer", "host"};

}  // namespace

std::string_view name_of(TimeTerm term) { return kNames[static_cast<std::size_t>(term)]; }

double TimeTerms::total() const { return std::accumulate(seconds.begin(), seconds.end(), 0.0); }

TimeTerms& TimeTerms::operator+=(const TimeTerms& other) {
  for (std::size_t i = 0; i < kTimeTerms; ++i) seconds[i] += other.seconds[i];
  return *this;
}

TimeTerms& TimeTerms::operator-=(const TimeTerms& other) {
  for (std::size_t i = 0; i < kTimeTerms; ++i) seconds[i] -= other.seconds[i];
  return *this;
}

TimeTerms operator*(TimeTerms terms, double times) {
  for (double& part : terms.seconds) part *= times;
  return terms;
}

}  // namespace steelyard
