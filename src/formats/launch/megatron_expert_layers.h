// Which layers have experts, as --moe-layer-freq says: `2` (every second, from the first), `[0,1,1]`, `([0]*3+[1]*58)`.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "document/value.h"

namespace steelyard {

// The layers without experts, of so many; nothing when the words are not understood, or say another number of layers.
std::optional<std::vector<std::int64_t>> dense_layers_of(const Value& frequency,
                                                         std::int64_t layers);

}  // namespace steelyard
