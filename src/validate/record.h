// Our own recordings of real runs (schema steelyard.record/1): the run file, and for each phase of the first and of a later
// step what was allocated at its peak, each storage rounded up to 512 bytes as the allocator rounds it.
//
//   {"schema": "steelyard.record/1", "run": {...},
//    "phases": [{"step": "first", "phase": "forward", "allocated_bytes": 4596353536, "resident_bytes": ..., "piles": {...}}, ...]}
//
// Such a prediction can be right to the byte, so that is what is counted.
#pragma once

#include <tl/expected.hpp>

#include "document/diagnostic.h"
#include "document/value.h"
#include "validate/measured_row.h"

namespace steelyard {

bool is_record(const Value& document);
tl::expected<MappedRun, Diagnostic> map_record(const Value& record);

}  // namespace steelyard
