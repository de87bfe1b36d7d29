// CUDA graphs in Megatron-LM's flags.
//
//   --cuda-graph-impl transformer_engine --cuda-graph-scope attn moe_router     cuda_graphs = "module"
//   --cuda-graph-impl local --cuda-graph-scope full_iteration                   cuda_graphs = "iteration"
#pragma once

#include "formats/launch/mapping.h"

namespace steelyard {

// As Megatron Core 0.15 to 0.18 and before say it: --enable-cuda-graph, --external-cuda-graph, --cuda-graph-modules.
void read_megatron_graphs(ConfigReader& reading);
// Behind the model, whose experts decide what can be captured.
void write_megatron_graphs(ConfigWriter& writing);

}  // namespace steelyard
