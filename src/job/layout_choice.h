// The layout: how many devices, how they are divided, and what each of them is fed.
//
//   devices = data x tensor x context x pipeline            either `data` or `devices` may be left out
//   global_batch = micro_batch x accumulation x data        any one or two may be left out
#pragma once

#include <cstdint>
#include <optional>

#include "job/draft.h"

namespace steelyard {

// `counted`: the 8 of "8xh100".
void choose_devices(Draft& draft, std::optional<std::int64_t> counted);
// Stage of ZeRO, replicas, sequence parallelism, schedule, experts: what the engine allows. Needs the devices.
void choose_parallel(Draft& draft);
// Needs the layout.
void choose_batch(Draft& draft);

}  // namespace steelyard
