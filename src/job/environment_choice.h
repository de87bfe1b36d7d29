// The run's environment: what changes its memory or its time of all that launch scripts export, and the version of torch.
//
//   [environment]
//   PYTORCH_CUDA_ALLOC_CONF = "expandable_segments:True"
//   TORCH_NCCL_AVOID_RECORD_STREAMS = "1"
//   TORCH_DISTRIBUTED_DEBUG = "DETAIL"      the hosts of a group check each collective with each other before it starts
//   transformers = "4.57"                   experts are linear modules, each of its own
//   megatron-core = "0.5"                   no buffer of parameters
//   torch = "2.1"        absent: nanotron's is 2.1, the others' is the newest; says whose blocks collectives hold back,
//                        and what torch.nn.RMSNorm is
//
// environment_keys.h lists them. Other names are carried and not read; one that was meant to be read is a warning.
#pragma once

#include "document/value.h"
#include "job/draft.h"

namespace steelyard {

// Before the adapters are: whether experts have linear modules of their own.
void peek_at_transformers(Draft& draft, const Value& document);
void choose_environment(Draft& draft, const Value& document, Diagnostics& problems);

}  // namespace steelyard
