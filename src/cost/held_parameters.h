// The parameters of a stretch, a part or a rank, as a step's time asks for them.
//
//   held.whole      what is computed with, and gathered for it         held.trained    what has gradients and is stepped
//
// Of both, experts apart: fewer ranks share them.
#pragma once

#include <algorithm>

namespace steelyard {

struct ParameterCount {
  double dense = 0, experts = 0;
  double all() const { return dense + experts; }
  ParameterCount& operator+=(const ParameterCount& other) {
    dense += other.dense;
    experts += other.experts;
    return *this;
  }
  friend ParameterCount operator*(ParameterCount count, double times) {
    return {count.dense * times, count.experts * times};
  }
  // The most of each.
  void raise_to(const ParameterCount& other) {
    dense = std::max(dense, other.dense);
    experts = std::max(experts, other.experts);
  }
};

struct HeldParameters {
  ParameterCount whole, trained;
  HeldParameters& operator+=(const HeldParameters& other) {
    whole += other.whole;
    trained += other.trained;
    return *this;
  }
  friend HeldParameters operator*(const HeldParameters& held, double times) {
    return {held.whole * times, held.trained * times};
  }
  void raise_to(const HeldParameters& other) {
    whole.raise_to(other.whole);
    trained.raise_to(other.trained);
  }
};

}  // namespace steelyard
