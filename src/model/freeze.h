// Parts that are not trained: no gradient, no state, and no activation kept for their sake.
//
//   freeze(llama, {"model.embed_tokens.*", "model.layers.0.*", "model.layers.1.*"})
//
//   kind 0 x 2    frozen, and nothing before it trains: no gradient comes this far, nothing is kept
//   kind 1 x 1    trains, but its input needs no gradient
//   kind 2 x 29   as before
//
// Patterns are those of whole tensor names; `*` stands for any letters. Layers of one kind whose frozen tensors differ
// become kinds of their own.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "model/architecture.h"

namespace steelyard {

// Whether `name` is one that `pattern` means.
bool matches_pattern(std::string_view name, std::string_view pattern);

// What the engine makes of a model that is partly frozen.
struct FreezeTerms {
  // FSDP1: a layer is one flat parameter, and so is all that stands outside of layers. Where a part of it is trained,
  // the whole has a gradient.
  bool flat_units = false;
  // What the embedding gives is asked for a gradient, though nothing of it is trained.
  bool gradient_asked_of_embedding = false;
  // The first layer whose input is asked for a gradient whatever was sent: behind a pipeline's boundary.
  std::int64_t gradient_asked_from = std::numeric_limits<std::int64_t>::max();
};

struct Frozen {
  std::shared_ptr<const Architecture> architecture;
  std::vector<std::string> unmatched;  // patterns that name no tensor
};
Frozen freeze(const Architecture& architecture, const std::vector<std::string>& patterns,
              const FreezeTerms& terms = {});

// No gradient comes to this layer: nothing of it and of all before it has one, or nobody reads what it gives.
bool is_untouched(const Layer& layer);

}  // namespace steelyard
