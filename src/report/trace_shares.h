// Where a device's time went, by a profiler's trace, beside the memory that the trace holds.
//
//   rank0.pt.trace.json: 2.31 s of the device: computing 52 %, communication alone 19 %, idle 29 %; 3 steps of 770 ms
//
// "Communication alone" is that which no computing hides.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "evidence/trace_times.h"

namespace steelyard {

// Empty where nothing of a device is in the trace.
std::string trace_shares_line(const std::string& file, const TraceTimes& times);
nlohmann::ordered_json json_of(const TraceTimes& times);

}  // namespace steelyard
