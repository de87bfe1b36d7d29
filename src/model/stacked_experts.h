// The experts of a layer in two tensors, where a release has three matrices for each of them.
//
//   released      mlp.experts.*.gate_proj [M, h] · up_proj [M, h] · down_proj [h, M]      E of each
//   stacked       mlp.experts.gate_up_proj [E, 2M, h] · down_proj [E, h, M]
//
// So transformers builds its models since 5.0 (each modeling_*.py, *Experts.__init__;
// https://github.com/huggingface/transformers/pull/41580): optimizers and FSDP see two large tensors.
#pragma once

#include <memory>

#include "model/architecture.h"

namespace steelyard {

// Layers whose experts are stacked already, or trained in part, stay as they are; so does a model without experts.
std::shared_ptr<const Architecture> with_stacked_experts(std::shared_ptr<const Architecture> model);

}  // namespace steelyard
