// The tower of vision of a multimodal config.json whose language model alone is weighed: how many parameters it has.
//
//   count_unread_tower(vision_config)      Qwen2.5-VL 7B: 676,550,144
//
// A launch that trains or holds the tower needs them besides; the reader says so with their number.
#pragma once

#include <cstdint>
#include <optional>

#include "document/value.h"

namespace steelyard {

// Nothing where the tower's kind or one of its sizes is not known.
std::optional<std::int64_t> count_unread_tower(const Value& vision_config);

}  // namespace steelyard
