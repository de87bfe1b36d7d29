// What an engine makes once for each kind of pipeline stage.
#pragma once

#include <stdexcept>
#include <utility>
#include <vector>

#include "engine/engine.h"

namespace steelyard {

// Buffers that depend on what stands on a stage; stages with equal units share them.
template <class N, class Buffers>
class ByStage {
 public:
  const Buffers* find(const Stage<N>& stage) const {
    for (const auto& [units, buffers] : known_)
      if (units == stage.units) return &buffers;
    return nullptr;
  }
  // The stage's load has been asked for before.
  const Buffers& at(const Stage<N>& stage) const {
    const Buffers* known = find(stage);
    if (!known) throw std::logic_error("the stage has not been loaded");
    return *known;
  }
  const Buffers& add(const Stage<N>& stage, Buffers buffers) {
    return known_.emplace_back(stage.units, std::move(buffers)).second;
  }

 private:
  std::vector<std::pair<std::vector<std::int64_t>, Buffers>> known_;
};

}  // namespace steelyard
