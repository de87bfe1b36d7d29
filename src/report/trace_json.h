// A predicted step in Chrome's trace format, which ui.perfetto.dev and chrome://tracing open: a process for each rank, slices
// on its thread, a counter of memory by pile.
//
//   {"name": "forward 3", "ph": "X", "pid": 0, "tid": 0, "ts": 1250.0, "dur": 410.5}
//   {"name": "memory", "ph": "C", "pid": 0, "ts": 1250.0, "args": {"parameters": 5712642048, ...}}
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "predict/step_trace.h"

namespace steelyard {

// Piece by piece: a long step takes hundreds of megabytes as text.
void write_trace_json(const StepTrace& trace, const std::function<void(std::string_view)>& write);

}  // namespace steelyard
