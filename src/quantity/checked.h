// A 64-bit integer that refuses to wrap around.
//
//   Checked tokens = 8192, hidden = 4096;
//   Checked elements = tokens * hidden;         // 33,554,432, or OverflowError
//
// Every size in the program is made of these: a model of 10^18 parameters ends in a number or in an
// OverflowError that the faces print as bad input, never in a wrapped total.
#pragma once

#include <compare>
#include <concepts>
#include <cstdint>
#include <stdexcept>

namespace steelyard {

// Thrown when a product or sum leaves the 64-bit range. Caught where a job is answered.
class OverflowError : public std::overflow_error {
 public:
  OverflowError() : std::overflow_error("a size is larger than 9,223,372,036,854,775,807") {}
};

class Checked {
 public:
  constexpr Checked() = default;
  template <std::signed_integral Integer>
  constexpr Checked(Integer value) : value_(value) {}  // NOLINT: literals read as sizes

  constexpr std::int64_t value() const { return value_; }

  friend constexpr Checked operator+(Checked a, Checked b) {
    std::int64_t result{};
    if (__builtin_add_overflow(a.value_, b.value_, &result)) throw OverflowError();
    return Checked(result);
  }
  friend constexpr Checked operator-(Checked a, Checked b) {
    std::int64_t result{};
    if (__builtin_sub_overflow(a.value_, b.value_, &result)) throw OverflowError();
    return Checked(result);
  }
  friend constexpr Checked operator*(Checked a, Checked b) {
    std::int64_t result{};
    if (__builtin_mul_overflow(a.value_, b.value_, &result)) throw OverflowError();
    return Checked(result);
  }
  // Division rounds toward zero; the divisor is a count that validation has shown to be positive.
  friend constexpr Checked operator/(Checked a, Checked b) { return Checked(a.value_ / b.value_); }
  friend constexpr Checked operator%(Checked a, Checked b) { return Checked(a.value_ % b.value_); }
  constexpr Checked& operator+=(Checked other) { return *this = *this + other; }
  constexpr Checked& operator-=(Checked other) { return *this = *this - other; }
  constexpr Checked& operator*=(Checked other) { return *this = *this * other; }
  friend constexpr auto operator<=>(Checked, Checked) = default;

 private:
  std::int64_t value_ = 0;
};

// The smallest multiple count: how many groups of `size` hold `total`.
constexpr Checked ceil_divide(Checked total, Checked size) {
  return (total + size - Checked(1)) / size;
}
constexpr Checked round_up(Checked total, Checked multiple) {
  return ceil_divide(total, multiple) * multiple;
}

}  // namespace steelyard
