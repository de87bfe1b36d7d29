// Multi-token prediction: which tensors its modules have, and a model that trains them.
//
//   h ── hnorm ──┐
//                ├─ joined [2h] ── eh_proj ── a layer, as the model's last ── norm ── the model's own head
//   embedding of the tokens one further ── enorm ──┘
#pragma once

#include <cstdint>
#include <memory>

#include "model/architecture.h"

namespace steelyard {

// Says that releases of the model hold so many modules, beside its total.
void add_prediction_modules(Architecture& model, std::int64_t depth);

// A decoder whose positions are not looked up in a table.
bool can_predict(const Architecture& model);
// The model with so many modules among the tensors of its head.
std::shared_ptr<const Architecture> with_prediction(const Architecture& model, std::int64_t depth);

}  // namespace steelyard
