// Adapters: which modules get one, and in which types everything is then kept and computed.
//
//   [adapter] rank = 16, base = "nf4"       frozen matrices in 4 bits, norms in fp32, adapters in fp32
#pragma once

#include "job/draft.h"

namespace steelyard {

// Needs the model, the engine, the recipe and what is recomputed. Replaces the job's model by the adapted one.
void choose_adapter(Draft& draft);

}  // namespace steelyard
