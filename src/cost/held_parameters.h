// The parameters of a stretch, a part or a rank, as a step's time asks for them.
//
//   held.whole      what is computed with, and gathered for it         held.trained    what has gradients and is stepped
//   held.tensors    how many there are, of how many modules and layers: engines hang their hooks on them
//   held.messages   buckets that its gradients fill, where they go in buckets: of whole tensors, so that a large one is one
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
  double tensors = 0, modules = 0, layers = 0, messages = 0;
  HeldParameters& operator+=(const HeldParameters& other) {
    whole += other.whole;
    trained += other.trained;
    tensors += other.tensors;
    modules += other.modules;
    layers += other.layers;
    messages += other.messages;
    return *this;
  }
  friend HeldParameters operator*(const HeldParameters& held, double times) {
    return {held.whole * times,   held.trained * times, held.tensors * times,
            held.modules * times, held.layers * times,  held.messages * times};
  }
  void raise_to(const HeldParameters& other) {
    whole.raise_to(other.whole);
    trained.raise_to(other.trained);
    tensors = std::max(tensors, other.tensors);
    modules = std::max(modules, other.modules);
    layers = std::max(layers, other.layers);
    messages = std::max(messages, other.messages);
  }
};

}  // namespace steelyard
