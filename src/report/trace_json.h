// A predicted step in Chrome's trace format, which ui.perfetto.dev and chrome://tracing open: a process for each rank, slices
// on its thread, a counter of memory by pile.
//
//   {"name": "forward 3", "ph": "X", "pid": 0, "tid": 0, "ts": 1250.0, "dur": 410.5}
//   {"name": "memory", "ph": "C", "pid": 0, "ts": 1250.0, "args": {"parameters": 5712642048, ...}}
#pragma once

#include <string>

#include "predict/step_trace.h"

namespace steelyard {

std::string trace_json(const StepTrace& trace);

}  // namespace steelyard
