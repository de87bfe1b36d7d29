// Which modules that predict further tokens are trained: those of the model, or of Megatron's --mtp-num-layers.
#pragma once

#include "job/draft.h"

namespace steelyard {

// Adds the modules to the job's model. Needs its implementation.
void choose_prediction(Draft& draft);

}  // namespace steelyard
