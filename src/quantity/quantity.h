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
#include <concepts>
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

// How many of one kind of thing. It reads as a plain number, so that products and quotients stay arithmetic; it is only made
// on purpose, and neither sums nor comparisons mix two kinds.
//
//   Ranks tensor(8);  Layers layers(126);
//   layers / pipeline                   126 / 16, a number
//   tensor = layers, tensor + layers    do not compile
template <class Tag>
class Count {
 public:
  constexpr Count() = default;
  explicit constexpr Count(std::int64_t value) : value_(value) {}
  template <class Other>
  explicit Count(Count<Other>) = delete;
  // NOLINTNEXTLINE(google-explicit-constructor): a count is a number to whoever only reads it
  constexpr operator std::int64_t() const { return value_; }
  // NOLINTNEXTLINE(google-explicit-constructor)
  constexpr operator Checked() const { return value_; }
  constexpr std::int64_t value() const { return value_; }

  constexpr Count& operator+=(Count other) { return *this = Count(value_ + other.value_); }
  constexpr Count& operator-=(Count other) { return *this = Count(value_ - other.value_); }
  constexpr Count& operator++() { return *this += Count(1); }
  constexpr Count& operator--() { return *this -= Count(1); }

 private:
  std::int64_t value_ = 0;
};
template <class A, class B>
concept DifferentKinds = !std::same_as<A, B>;
template <class A, class B>
requires DifferentKinds<A, B>
void operator+(Count<A>, Count<B>) = delete;
template <class A, class B>
requires DifferentKinds<A, B>
void operator-(Count<A>, Count<B>) = delete;
template <class A, class B>
requires DifferentKinds<A, B>
void operator<=>(Count<A>, Count<B>) = delete;
template <class A, class B>
requires DifferentKinds<A, B>
void operator==(Count<A>, Count<B>) = delete;

using Ranks = Count<struct RanksTag>;
using Layers = Count<struct LayersTag>;
using Tokens = Count<struct TokensTag>;

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
