// What a recipe stores for each parameter, before any engine divides or rounds it.
//
//   bf16-mixed, adamw    parameters 2 + gradients 2 + master 4 + moments 8 = 16 bytes
//
// The published rules of thumb are exactly this, and how data-parallel ranks share it:
//   ddp  16 P     ZeRO-1  4 P + 12 P/N     ZeRO-2  2 P + 14 P/N     ZeRO-3  16 P/N
#pragma once

#include <cstdint>

#include "recipe/optimizer.h"
#include "recipe/precision.h"

namespace steelyard {

// Bytes for each parameter. Whole numbers for all common recipes; blocks of scales make fractions.
struct ModelStates {
  double parameters = 0;
  double gradients = 0;
  double accumulated_gradients = 0;  // a second, persistent set in another type
  double master_weights = 0;
  double moments = 0;

  double total() const {
    return parameters + gradients + accumulated_gradients + master_weights + moments;
  }
};
ModelStates model_states_of(const Precision& precision, const Optimizer& optimizer);

// Bytes for each parameter on one of `ranks` data-parallel ranks.
double states_per_rank(const ModelStates& states, std::int64_t zero_stage, std::int64_t ranks);

}  // namespace steelyard
