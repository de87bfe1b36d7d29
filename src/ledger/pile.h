// The piles that memory is sorted into and the phases of a step.
//
//   load | generation | forward | scoring | backward | optimizer | checkpoint
//   (generation: completions that are learnt from, before the first forward; scoring: a forward without gradients, of a
//   second model or of the same one, between forward and backward)
//   parameters · gradients · master weights · optimizer moments · activations · temporary · communication   (allocated)
//   slack (reserved, not allocated) · runtime (outside the allocator)
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "quantity/quantity.h"

namespace steelyard {

enum class Pile : std::uint8_t {
  kParameters,
  kGradients,
  kMasterWeights,
  kOptimizerMoments,
  kActivations,
  kTemporary,
  kCommunication
};
constexpr int kPileCount = 7;
enum class Phase : std::uint8_t {
  kLoad,
  kGeneration,
  kForward,
  kScoring,
  kBackward,
  kOptimizer,
  kCheckpoint
};
constexpr int kPhaseCount = 7;

constexpr std::string_view name_of(Pile pile) {
  constexpr std::array<std::string_view, kPileCount> names = {
      "parameters",  "gradients", "master_weights", "optimizer_moments",
      "activations", "temporary", "communication"};
  return names[static_cast<std::size_t>(pile)];
}
constexpr std::string_view name_of(Phase phase) {
  constexpr std::array<std::string_view, kPhaseCount> names = {
      "load", "generation", "forward", "scoring", "backward", "optimizer", "checkpoint"};
  return names[static_cast<std::size_t>(phase)];
}

// A cost vector: bytes by pile, with arithmetic, so that a difference of two runs is `a - b`.
struct Piles {
  std::array<Bytes, kPileCount> bytes{};

  constexpr Bytes& operator[](Pile pile) { return bytes[static_cast<std::size_t>(pile)]; }
  constexpr Bytes operator[](Pile pile) const { return bytes[static_cast<std::size_t>(pile)]; }
  constexpr Bytes total() const {
    Bytes sum{};
    for (Bytes part : bytes) sum += part;
    return sum;
  }
  constexpr Piles& operator+=(const Piles& other) {
    for (std::size_t i = 0; i < kPileCount; ++i) bytes[i] += other.bytes[i];
    return *this;
  }
  constexpr Piles& operator-=(const Piles& other) {
    for (std::size_t i = 0; i < kPileCount; ++i) bytes[i] -= other.bytes[i];
    return *this;
  }
  friend constexpr Piles operator+(Piles a, const Piles& b) { return a += b; }
  friend constexpr Piles operator-(Piles a, const Piles& b) { return a -= b; }
  friend constexpr Piles operator*(Piles a, Checked times) {
    for (Bytes& part : a.bytes) part = part * times;
    return a;
  }
  friend constexpr bool operator==(const Piles&, const Piles&) = default;
};

// The first of the largest.
constexpr Pile largest_pile(const Piles& piles) {
  std::size_t largest = 0;
  for (std::size_t i = 1; i < kPileCount; ++i)
    if (piles.bytes[i] > piles.bytes[largest]) largest = i;
  return static_cast<Pile>(largest);
}

}  // namespace steelyard
