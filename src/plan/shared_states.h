// How data-parallel ranks share what a recipe stores for each parameter, before any engine rounds
// it.
//
//   ddp  16 P     ZeRO-1  4 P + 12 P/N     ZeRO-2  2 P + 14 P/N     ZeRO-3  16 P/N
//
// The published rule, with 2 + 2 + 12 bytes of bf16-mixed and Adam: a teaching figure and an upper
// end for searches; a prediction never uses it.
#pragma once

#include <cstdint>

#include "recipe/bytes_per_parameter.h"

namespace steelyard {

// Bytes for each parameter on one of `ranks` data-parallel ranks.
double bytes_per_rank(const BytesPerParameter& states, std::int64_t zero_stage, std::int64_t ranks);

}  // namespace steelyard
