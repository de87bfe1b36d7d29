// Adapters: which modules get one, and in which types everything is then kept and computed.
//
//   [adapter] rank = 16, base = "nf4"       frozen matrices in 4 bits, norms in fp32, adapters in fp32
#pragma once

#include <optional>

#include "job/draft.h"
#include "model/stored_quantisation.h"

namespace steelyard {

// Needs the model, the engine, the recipe and what is recomputed. Replaces the job's model by the adapted one.
// `stored`: the checkpoint's own weights have fewer than 16 bits.
void choose_adapter(Draft& draft, const std::optional<StoredQuantisation>& stored);

}  // namespace steelyard
