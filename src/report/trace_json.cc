#include "report/trace_json.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace steelyard {

namespace {

using Json = nlohmann::ordered_json;

// Microseconds to the nanosecond: edges of slices that touch are the same number.
double microseconds(double seconds) { return std::round(seconds * 1e9) / 1e3; }

}  // namespace

std::string trace_json(const StepTrace& trace) {
  Json events = Json::array();
  for (std::size_t rank = 0; rank < trace.ranks.size(); ++rank)
    events.push_back({{"name", "process_name"},
                      {"ph", "M"},
                      {"pid", rank},
                      {"args", {{"name", trace.ranks[rank]}}}});
  for (const TraceSlice& slice : trace.slices) {
    const double start = microseconds(slice.start);
    events.push_back({{"name", slice.name},
                      {"cat", slice.depth == 0 ? "step" : "term"},
                      {"ph", "X"},
                      {"pid", slice.rank},
                      {"tid", 0},
                      {"ts", start},
                      {"dur", microseconds(slice.start + slice.seconds) - start}});
  }
  for (const TraceMemory& memory : trace.memory) {
    Json piles = Json::object();
    for (std::size_t pile = 0; pile < kPileCount; ++pile)
      piles[std::string(name_of(static_cast<Pile>(pile)))] =
          memory.piles.bytes[pile].value().value();
    events.push_back({{"name", "memory"},
                      {"ph", "C"},
                      {"pid", memory.rank},
                      {"ts", microseconds(memory.time)},
                      {"args", std::move(piles)}});
  }
  const Json document = {{"displayTimeUnit", "ms"}, {"traceEvents", std::move(events)}};
  return document.dump() + "\n";
}

}  // namespace steelyard
