// The seconds of a step by what they are spent on. Terms sum to the step; what no term can hide is in one of them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace steelyard {

enum class TimeTerm : std::uint8_t {
  kCompute,
  kRecompute,
  kTensor,
  kContext,
  kExpert,
  kData,
  kPipeline,
  kBubble,
  kOffload,
  kOptimizer,
  kHost
};
constexpr std::size_t kTimeTerms = 11;
std::string_view name_of(TimeTerm term);

struct TimeTerms {
  std::array<double, kTimeTerms> seconds{};
  double& operator[](TimeTerm term) { return seconds[static_cast<std::size_t>(term)]; }
  double operator[](TimeTerm term) const { return seconds[static_cast<std::size_t>(term)]; }
  double total() const;
  TimeTerms& operator+=(const TimeTerms& other);
  TimeTerms& operator-=(const TimeTerms& other);
  friend TimeTerms operator*(TimeTerms terms, double times);
};

}  // namespace steelyard
