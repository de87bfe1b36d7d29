// Rows that a user writes of his own runs: the run file as JSON, and what was read of the run. `calibrate` reads the same lines.
//
//   {"run": {...}, "step_seconds": 1.25, "peak_allocated_bytes": 61234567890, "peak_reserved_bytes": 64424509440,
//    "device_bytes": 65498251264, "resident_bytes": 15032385536, "out_of_memory": false, "id": "tuesday"}
//
// Each key beside "run" may be absent. Bytes are those of max_memory_allocated, max_memory_reserved, nvidia-smi and, between
// steps, memory_allocated; of several ranks, the largest.
#pragma once

#include <string_view>

#include "validate/measured_row.h"

namespace steelyard {

constexpr std::string_view kOwnRuns = "own-runs";

const RowSources& own_runs();

}  // namespace steelyard
