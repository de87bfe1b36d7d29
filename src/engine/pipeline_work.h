// The kernels of a model's pipeline: each distinct stretch of it once, and how often it stands in each part.
//
//   stretches   embedding · layer of kind 0 · layer of kind 1 · head
//   parts       {embedding x 1, layer x 4}   {layer x 4}   {layer x 4, head x 1}
#pragma once

#include <cstdint>
#include <vector>

#include "operators/graph.h"

namespace steelyard {

// What kernels run in one micro-batch. A model has few distinct stretches: embedding, a layer of each kind, head; a part (a
// stage, or a chunk of one) is so many of each.
struct PipelineWork {
  struct Stretch {
    const char* label = "";  // "embedding", "layer", "head"
    int unit = 0;            // in the order of SlotSet
    Kernels forward, backward;
  };
  struct Count {
    std::size_t stretch = 0;
    std::int64_t times = 0;
    friend bool operator==(const Count&, const Count&) = default;
  };
  std::vector<Stretch> stretches;
  // From the embedding on; behind them, where the vocabulary is divided, what every rank runs of its lookup and output layer.
  std::vector<std::vector<Count>> parts;
};

}  // namespace steelyard
