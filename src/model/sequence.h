// The order of a model's layers, written short.
//
//   0 0 0 0 0 1  0 0 0 0 0 1  0 0        gemma3: five local layers, one global, and so on
//   {5 x kind 0, 1 x kind 1} x 2, {2 x kind 0} x 1
#pragma once

#include <vector>

#include "model/architecture.h"

namespace steelyard {

std::vector<LayerGroup> grouped_sequence(const std::vector<int>& kind_of_layer);

// The kind of every layer again, for those who walk them one by one.
std::vector<int> kind_of_each_layer(const Architecture& architecture);

}  // namespace steelyard
