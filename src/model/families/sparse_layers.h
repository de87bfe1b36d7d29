// What the Qwen mixtures of experts share: which layers are dense, and how a router's scores become weights.
#pragma once

#include <vector>

#include "model/architecture.h"
#include "model/config.h"

namespace steelyard {

// Layer i holds experts when it is not in mlp_only_layers and (i + 1) is a multiple of
// decoder_sparse_step.
std::vector<bool> qwen_sparse_layers(Config& config, Checked layers);

Routing qwen_routing(Config& config);

}  // namespace steelyard
