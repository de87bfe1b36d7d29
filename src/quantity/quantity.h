// Different kinds of number are different types.
//
//   Bytes memory = 80_GiB;
//   Elements weights{8'030'261'248};
//   memory + weights                    does not compile
//   bytes_of(weights, ElementType::kBFloat16)   is the only way from elements to bytes
//
// A quantity is signed: a deficit is a negative number of bytes, not a wrapped one.
#pragma once

#include <compare>
#include <cstdint>

#include "quantity/checked.h"

namespace steelyard {

template <class Tag, class Rep>
class Quantity {
 public:
  constexpr Quantity() = default;
  explicit constexpr Quantity(Rep value) : value_(value) {}
  constexpr Rep value() const { return value_; }

  friend constexpr Quantity operator+(Quantity a, Quantity b) {
    return Quantity(a.value_ + b.value_);
  }
  friend constexpr Quantity operator-(Quantity a, Quantity b) {
    return Quantity(a.value_ - b.value_);
  }
  friend constexpr Quantity operator*(Quantity a, Rep count) { return Quantity(a.value_ * count); }
  friend constexpr Quantity operator*(Rep count, Quantity a) { return Quantity(a.value_ * count); }
  constexpr Quantity& operator+=(Quantity other) { return *this = *this + other; }
  constexpr Quantity& operator-=(Quantity other) { return *this = *this - other; }
  friend constexpr auto operator<=>(Quantity, Quantity) = default;

 private:
  Rep value_{};
};

using Bytes = Quantity<struct BytesTag, Checked>;
using Elements = Quantity<struct ElementsTag, Checked>;
using Flops = Quantity<struct FlopsTag, double>;
using Seconds = Quantity<struct SecondsTag, double>;
using BytesPerSecond = Quantity<struct BytesPerSecondTag, double>;
using FlopsPerSecond = Quantity<struct FlopsPerSecondTag, double>;
using Ranks = Quantity<struct RanksTag, Checked>;
using Layers = Quantity<struct LayersTag, Checked>;
using Tokens = Quantity<struct TokensTag, Checked>;

constexpr Bytes operator""_B(unsigned long long count) {
  return Bytes(static_cast<std::int64_t>(count));
}
constexpr Bytes operator""_KiB(unsigned long long count) {
  return Bytes(Checked(static_cast<std::int64_t>(count)) * (std::int64_t{1} << 10));
}
constexpr Bytes operator""_MiB(unsigned long long count) {
  return Bytes(Checked(static_cast<std::int64_t>(count)) * (std::int64_t{1} << 20));
}
constexpr Bytes operator""_GiB(unsigned long long count) {
  return Bytes(Checked(static_cast<std::int64_t>(count)) * (std::int64_t{1} << 30));
}

// The caching allocator hands out multiples of 512 bytes (c10/cuda/CUDACachingAllocator.cpp, kMinBlockSize).
constexpr std::int64_t kAllocationGranularity = 512;
constexpr Bytes allocated_size(Bytes requested) {
  return Bytes(round_up(requested.value(), kAllocationGranularity));
}

}  // namespace steelyard
