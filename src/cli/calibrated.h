// What --calibrated says: constants of the cost model that `steelyard calibrate` has written, in force for one command.
//
//   const auto calibrated = calibrated_rates(invocation);
//   if (!calibrated) return refuse(invocation, calibrated.error(), "nothing weighed");
//
// To be asked before threads start that read them.
#pragma once

#include <memory>
#include <tl/expected.hpp>

#include "cli/command.h"
#include "cost/achieved_rates.h"
#include "document/diagnostic.h"

namespace steelyard {

// Null where the flag is not given.
tl::expected<std::unique_ptr<RatesInForce>, Diagnostics> calibrated_rates(
    const Invocation& invocation);

}  // namespace steelyard
