// What FSDP2 makes a unit of beside the layers.
//
//   wrap.ends = "root"     fully_shard(layer) for each, fully_shard(model): embedding, last norm and head are the root's
//   wrap.ends = "apart"    fully_shard(embedding), fully_shard([norm, head]): Accelerate since 1.14, torchtitan since 0.2
#pragma once

#include "job/draft.h"

namespace steelyard {

// Needs the layout, the model code and the versions of [environment].
void choose_wrapping(Draft& draft);

}  // namespace steelyard
