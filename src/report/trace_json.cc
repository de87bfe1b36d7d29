#include "report/trace_json.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <vector>

namespace steelyard {

namespace {

using Json = nlohmann::ordered_json;

// Microseconds to the nanosecond: edges of slices that touch are the same number.
double microseconds(double seconds) { return std::round(seconds * 1e9) / 1e3; }

// The list of events, each written as it comes.
class Events {
 public:
  explicit Events(const std::function<void(std::string_view)>& write) : write_(write) {
    text_ = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[";
  }
  void push_back(const Json& event) {
    constexpr std::size_t kPiece = std::size_t{1} << 20;
    if (!first_) text_ += ',';
    first_ = false;
    text_ += event.dump();
    if (text_.size() < kPiece) return;
    write_(text_);
    text_.clear();
  }
  void end() { write_(text_ + "]}\n"); }

 private:
  const std::function<void(std::string_view)>& write_;
  std::string text_;
  bool first_ = true;
};

}  // namespace

void write_trace_json(const StepTrace& trace, const std::function<void(std::string_view)>& write) {
  Events events(write);
  const auto about = [&](const char* what, std::size_t rank, std::size_t stream, Json args) {
    events.push_back(
        {{"name", what}, {"ph", "M"}, {"pid", rank}, {"tid", stream}, {"args", std::move(args)}});
  };
  std::vector<std::array<bool, kTraceStreams.size()>> runs(trace.ranks.size());
  for (const TraceSlice& slice : trace.slices)
    runs[static_cast<std::size_t>(slice.rank)][slice.stream] = true;
  for (std::size_t rank = 0; rank < trace.ranks.size(); ++rank) {
    about("process_name", rank, 0, {{"name", trace.ranks[rank]}});
    for (std::size_t stream = 0; stream < kTraceStreams.size(); ++stream) {
      if (!runs[rank][stream]) continue;
      about("thread_name", rank, stream, {{"name", name_of(kTraceStreams[stream])}});
      about("thread_sort_index", rank, stream, {{"sort_index", stream}});
    }
  }
  for (const TraceSlice& slice : trace.slices) {
    const double start = microseconds(slice.start);
    const bool computes = kTraceStreams[slice.stream] == TimeTerm::kCompute;
    events.push_back(
        {{"name", slice.name},
         {"cat", !computes          ? "exchange"
                 : slice.depth == 0 ? "step"
                                    : "term"},
         {"ph", "X"},
         {"pid", slice.rank},
         {"tid", slice.stream},
         {"ts", start},
         {"dur", microseconds(microseconds(slice.start + slice.seconds) / 1e6 - start / 1e6)}});
  }
  // Arrows begin within the slice that sends, and end at the one that has waited for it.
  constexpr double kWithin = 0.001;  // microseconds
  for (std::size_t send = 0; send < trace.sends.size(); ++send) {
    const TraceSend& one = trace.sends[send];
    Json arrow = {{"name", "send"},
                  {"cat", "send"},
                  {"ph", "s"},
                  {"id", send},
                  {"pid", one.from_rank},
                  {"tid", 0},
                  {"ts", microseconds(one.from) - kWithin}};
    events.push_back(arrow);
    arrow["ph"] = "f";
    arrow["bp"] = "e";
    arrow["pid"] = one.to_rank;
    arrow["ts"] = microseconds(one.to) + kWithin;
    events.push_back(std::move(arrow));
  }
  std::array<bool, kPileCount> held{};
  for (const TraceMemory& memory : trace.memory)
    for (std::size_t pile = 0; pile < kPileCount; ++pile)
      held[pile] = held[pile] || memory.piles.bytes[pile] > Bytes{};
  for (const TraceMemory& memory : trace.memory)
    for (std::size_t pile = 0; pile < kPileCount; ++pile)
      if (held[pile])
        events.push_back({{"name", name_of(static_cast<Pile>(pile))},
                          {"ph", "C"},
                          {"pid", memory.rank},
                          {"ts", microseconds(memory.time)},
                          {"args", {{"bytes", memory.piles.bytes[pile].value().value()}}}});
  events.end();
}

}  // namespace steelyard
