// Any bytes as a profiler's trace and as a memory timeline: shares that fit their span, or a reason why not.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "evidence/memory_timeline.h"
#include "evidence/profiler_trace.h"
#include "evidence/trace_times.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  steelyard::recognise_profiler_trace(text, "fuzz");
  steelyard::recognise_memory_timeline(text, "fuzz");
  if (const auto trace = steelyard::read_profiler_trace(text, "fuzz")) {
    const steelyard::TraceTimes& times = *trace->trace;
    if (!trace->complete && trace->why_incomplete.empty()) std::abort();
    const double slack = 1e-6 * (times.span_seconds + 1.0);
    if (!(times.busy_seconds <= times.span_seconds + slack) ||
        !(times.exposed_seconds <= times.busy_seconds + slack))
      std::abort();
  }
  if (const auto timeline = steelyard::read_memory_timeline(text, "fuzz"))
    if (!timeline->complete && timeline->why_incomplete.empty()) std::abort();
  return 0;
}
