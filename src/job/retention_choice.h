// What is kept and what is not: recomputation, offload, the engine's buffers, checkpoints.
#pragma once

#include "job/draft.h"

namespace steelyard {

// Needs the model's layers and the stages.
void choose_recompute(Draft& draft);
void choose_offload(Draft& draft);
void choose_buffers(Draft& draft);

}  // namespace steelyard
