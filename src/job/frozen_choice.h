// Which tensors are not trained, and whether the engine can run what is left.
#pragma once

#include "job/draft.h"

namespace steelyard {

// Needs the model, the engine, the precision and the stages of the pipeline.
void choose_frozen(Draft& draft);

}  // namespace steelyard
