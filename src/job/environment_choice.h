// The run's environment: of what launch scripts export only the allocator's settings change its memory.
//
//   [environment]
//   PYTORCH_CUDA_ALLOC_CONF = "expandable_segments:True"
//
// Other names are carried and not read.
#pragma once

#include "document/value.h"
#include "job/draft.h"

namespace steelyard {

void choose_environment(Draft& draft, const Value& document, Diagnostics& problems);

}  // namespace steelyard
