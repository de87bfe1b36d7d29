// A size as a product of known widths: 2,101,346,304 B = 8,192 tokens x 128,256 vocabulary x 2 B.
//
// Sizes of texts are rounded: a range is asked for. With a run its own widths are tried; without one the vocabularies of the
// known models.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "job/job.h"

namespace steelyard {

struct SizeRange {
  std::int64_t low = 0, high = 0;  // bytes, inclusive
};

enum class ShapeKind : std::uint8_t { kOtherShape, kLogitsShape, kScoresShape, kWeightShape };

struct Shape {
  ShapeKind kind = ShapeKind::kOtherShape;
  std::int64_t bytes = 0;
  std::string words;    // "8,192 x 128,256 x 2 B"
  std::string meaning;  // "one 16-bit copy of the logits"
};

std::optional<Shape> shape_of(SizeRange range, const Job& job);
// Logits of a known model, for a round number of tokens; the likeliest one.
std::optional<Shape> logits_of_known_model(SizeRange range);

}  // namespace steelyard
