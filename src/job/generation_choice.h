// Who makes the completions that a method learns from, and what of the device that takes.
//
//   [generation] engine = "vllm"          on the same device: weights and cache of its own, a share of the device
//                memory_fraction = 0.3
//                sleep = true             gives it back while the model is trained
//   [generation] engine = "elsewhere"     on devices of its own: nothing of it is here
#pragma once

#include "job/draft.h"

namespace steelyard {

void choose_generation(Draft& draft);

}  // namespace steelyard
