// What one parameter costs: the line that every course on training memory starts with.
//
//   adamw, bf16-mixed     2 parameters + 2 gradients + 4 master + 8 states = 16
//
// A teaching figure, taken at a square hidden matrix of 4,096; a weighing never uses it
// (embeddings, vectors, rounding and sharding have rules of their own).
#pragma once

#include "recipe/optimizer.h"
#include "recipe/precision.h"

namespace steelyard {

struct BytesPerParameter {
  double parameters = 0;
  double gradients = 0;
  double accumulated_gradients = 0;
  double master = 0;
  double states = 0;
  double total() const { return parameters + gradients + accumulated_gradients + master + states; }
};

BytesPerParameter bytes_per_parameter(const Optimizer& optimizer, const Precision& precision);

}  // namespace steelyard
