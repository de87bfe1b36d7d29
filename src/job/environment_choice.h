// The run's environment: what changes its memory of all that launch scripts export, and the version of torch.
//
//   [environment]
//   PYTORCH_CUDA_ALLOC_CONF = "expandable_segments:True"
//   TORCH_NCCL_AVOID_RECORD_STREAMS = "1"
//   torch = "2.1"        absent: nanotron's is 2.1, the others' is the newest; says whose blocks collectives hold back,
//                        and what torch.nn.RMSNorm is
//
// Other names are carried and not read.
#pragma once

#include "document/value.h"
#include "job/draft.h"

namespace steelyard {

void choose_environment(Draft& draft, const Value& document, Diagnostics& problems);

}  // namespace steelyard
