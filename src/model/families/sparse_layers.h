// Which layers of a Qwen mixture of experts are dense.
#pragma once

#include <vector>

#include "model/config.h"

namespace steelyard {

// Layer i holds experts when it is not in mlp_only_layers and (i + 1) is a multiple of
// decoder_sparse_step.
std::vector<bool> qwen_sparse_layers(Config& config, Checked layers);

}  // namespace steelyard
