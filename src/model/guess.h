// A shape for a size alone: "7B" names no model, so one is made up by a stated rule, and says so.
//
//   size    width  layers  mlp     vocabulary   heads
//   125M      768      12   1,728      31,832   12 of 64
//   7B      4,096      32  11,648      33,208   32 of 128
//   70B     9,216      68  29,184     124,544   72 of 128, 8 key/value heads
//
// The rule. A llama-like decoder, untied. From 1B on heads of 128 and about as many layers as heads
// (width = 128 layers, as Llama 2 7B and GPT-3 175B have it), below heads of 64 and width = 64
// layers. Layers are a multiple of 4, widths of 256, 512 (from 1B) and 1,024 (from 3B). The
// vocabulary is near Llama 2's 32,000 below 20B and near Llama 3's 128,000 above, where keys and
// values have 8 heads. The mlp is as wide as the rest of the size allows (in steps of 64 or 128),
// and the vocabulary takes up what is left, so that the count is within 0.01 % of the size that was
// asked for.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "document/diagnostic.h"
#include "document/value.h"
#include "model/architecture.h"

namespace steelyard {

constexpr std::int64_t kSmallestGuess = 50'000'000;
constexpr std::int64_t kLargestGuess = 100'000'000'000'000;

// "7B", "1.5b", "125M", "10T": digits, perhaps a point and more, and one of the letters. Nothing
// else is a size.
std::optional<std::int64_t> parameters_written(std::string_view text);

// The config.json that the rule makes up, of the family llama.
Value guessed_config(std::int64_t parameters);

// `guessed` and `guess_rule` of the architecture say what was made up. `place` is where the size
// was written.
std::optional<Architecture> guess_architecture(std::string_view size, const Place& place,
                                               Diagnostics& diagnostics);

}  // namespace steelyard
