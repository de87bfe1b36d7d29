// What is captured in CUDA graphs, launched as one and replayed from then on.
//
//   cuda_graphs = "module"       each layer's attention, mlp and router; dropless experts have no fixed shapes, and stay out
//   cuda_graphs = "iteration"    forward and backward of all micro-batches; the optimizer stays out
#pragma once

#include "job/draft.h"

namespace steelyard {

// Needs what is computed again, and what is offloaded.
void choose_graphs(Draft& draft);

}  // namespace steelyard
