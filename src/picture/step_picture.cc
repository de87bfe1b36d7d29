#include "picture/step_picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "quantity/print.h"
#include "report/weighing.h"

namespace steelyard {
namespace {

// Passages of a step that one chart can show apart: beyond it neighbours of one kind are drawn as one.
constexpr std::size_t kMostMarks = 1500;
// Rows of a schedule: the first, the last, and some between.
constexpr std::size_t kMostStages = 16;

double bytes_in(Bytes bytes) { return static_cast<double>(bytes.value().value()); }

// What moves from point to point, in tenths of a pixel: a sum of rounded steps never drifts.
class Outline {
 public:
  Outline(double x, double y) : start_(x), x_(tenths(x)), y_(tenths(y)) {
    text_ = fmt::format("M{} {}", coordinate(x), coordinate(y));
  }
  void to(double x, double y) {
    const std::int64_t dx = tenths(x) - x_, dy = tenths(y) - y_;
    if (dx == 0 && dy == 0) return;
    // On a straight level line only its end counts.
    if (dy == 0) {
      pending_ += dx;
    } else {
      flush();
      if (dx == 0)
        text_ += "v" + number(dy);
      else
        text_ += "l" + number(dx) + (dy < 0 ? "" : " ") + number(dy);
    }
    x_ += dx;
    y_ += dy;
  }
  std::string closed_at(double bottom) {
    flush();
    return text_ + "V" + coordinate(bottom) + "H" + coordinate(start_) + "z";
  }
  std::string open() {
    flush();
    return text_;
  }

 private:
  static std::int64_t tenths(double value) { return std::llround(value * 10); }
  static std::string number(std::int64_t value) {
    return coordinate(static_cast<double>(value) / 10);
  }
  void flush() {
    if (pending_ != 0) text_ += "h" + number(pending_);
    pending_ = 0;
  }
  double start_;
  std::int64_t x_, y_, pending_ = 0;
  std::string text_;
};

std::string_view kind_of(std::string_view name) {
  if (name.find("weights") != std::string_view::npos) return "weights";
  if (name.find("backward") != std::string_view::npos) return "backward";
  if (name.find("forward") != std::string_view::npos || name.substr(0, 6) == "lookup" ||
      name.substr(0, 6) == "output")
    return "forward";
  return name.substr(0, 5) == "waits" ? "network" : "optimizer";
}

double end_of(const StepTrace& trace) {
  double end = 0;
  for (const TraceSlice& slice : trace.slices) end = std::max(end, slice.start + slice.seconds);
  for (const TraceMemory& memory : trace.memory) end = std::max(end, memory.time);
  return end;
}

void draw_seconds(Svg& svg, double left, double width, double y, double end) {
  const int count = width > 420 ? 6 : 3;
  for (const double tick : round_ticks(end, count)) {
    const double x = left + tick / end * width;
    const std::string words = tick == 0 ? "0" : print(Seconds(tick));
    if (x + text_width(words) / 2 > left + width + 30) continue;
    const bool last = x + text_width(words) / 2 > svg.width() - 1;
    svg.text(last ? svg.width() - 1 : x, y, words, "sy-q",
             tick == 0 ? "start"
             : last    ? "end"
                       : "middle");
  }
}

// The phases above a plot, from the slices of one rank.
struct PhaseStretch {
  std::string_view kind;
  double start, end;
};
constexpr std::string_view kTurns = "backward, forward in turn";
std::vector<PhaseStretch> stretches_of(const StepTrace& trace, std::int64_t stage) {
  std::vector<PhaseStretch> stretches;
  for (const TraceSlice& slice : trace.slices) {
    if (slice.rank != stage || slice.stream != 0 || slice.depth != 0) continue;
    const std::string_view kind = kind_of(slice.name);
    const double stop = slice.start + slice.seconds;
    if (!stretches.empty() && stretches.back().kind == kind) {
      stretches.back().end = stop;
      continue;
    }
    // Where forward and backward take turns, the turns are one stretch.
    const bool turns =
        kind == "forward" && !stretches.empty() && stretches.back().kind != "network";
    if (turns || (!stretches.empty() && stretches.back().kind == kTurns &&
                  (kind == "backward" || kind == "weights"))) {
      stretches.back().kind = kTurns;
      stretches.back().end = stop;
      continue;
    }
    stretches.push_back({kind, slice.start, stop});
  }
  return stretches;
}

}  // namespace

std::string timeline_svg(const StepTrace& trace, std::int64_t stage, const Prediction& prediction,
                         const Frame& frame) {
  constexpr double kTop = 30, kPlot = 170, kLeft = 44, kRight = 8, kBottom = 22;
  const double end = end_of(trace);
  if (!(end > 0) || prediction.ranks.empty()) return "";
  const RankPrediction* rank = &prediction.ranks.front();
  for (const RankPrediction& one : prediction.ranks)
    if (one.pipeline == stage && (rank->pipeline != stage || one.device > rank->device))
      rank = &one;
  std::vector<const TraceMemory*> points;
  Bytes highest{};
  for (const TraceMemory& memory : trace.memory)
    if (memory.rank == stage) {
      points.push_back(&memory);
      highest = std::max(highest, memory.piles.total());
    }
  if (points.empty()) return "";
  const Scale units = scale_of(prediction, Units::kBinary);
  const double most =
      std::max({bytes_in(prediction.usable), bytes_in(rank->device), bytes_in(highest)}) * 1.03;
  const double width = frame.width - kLeft - kRight, bottom = kTop + kPlot;
  const auto x_of = [&](double time) { return kLeft + time / end * width; };
  const auto y_of = [&](double bytes) { return bottom - bytes / most * kPlot; };
  Svg svg(
      frame, bottom + kBottom,
      fmt::format("Memory over one step of {}: at most {} allocated, {} on the device; usable {}.",
                  trace.ranks.size() > 1 ? fmt::format("stage {}", stage + 1) : "every rank",
                  amount_of(highest, units), number_of(rank->device, units),
                  number_of(prediction.usable, units)));
  svg.plot(kLeft, kTop, width, kPlot, end, most);
  const double unit = static_cast<double>(units.unit_bytes);
  for (const double tick : round_ticks(most / unit, 4)) {
    svg.line("sy-l", kLeft, y_of(tick * unit), kLeft + width, y_of(tick * unit));
    svg.text(kLeft - 6, y_of(tick * unit) + 4, coordinate(tick), "sy-q", "end");
  }
  svg.text(2, 12, units.unit, "sy-q");
  for (int pile = kPileCount - 1; pile >= 0; --pile) {
    const auto sum = [&](const Piles& piles) {
      Bytes bytes{};
      for (int i = 0; i <= pile; ++i) bytes += piles[static_cast<Pile>(i)];
      return bytes_in(bytes);
    };
    if (std::all_of(points.begin(), points.end(), [&](const TraceMemory* point) {
          return point->piles[static_cast<Pile>(pile)] <= Bytes();
        }))
      continue;
    Outline outline(x_of(points.front()->time), y_of(sum(points.front()->piles)));
    for (const TraceMemory* point : points) outline.to(x_of(point->time), y_of(sum(point->piles)));
    outline.to(x_of(end), y_of(sum(points.back()->piles)));
    svg.path(svg.fill(paint_of(static_cast<Pile>(pile))) +
                 fmt::format(" data-pile=\"{}\"", name_of(static_cast<Pile>(pile))),
             outline.closed_at(bottom));
  }
  // What the device shows, above what is allocated: reserved and runtime.
  svg.path("class=\"sy-s\" fill=\"none\" stroke=\"#6b7680\" stroke-dasharray=\"4 3\"",
           fmt::format("M{} {}h{}", coordinate(kLeft), coordinate(y_of(bytes_in(rank->device))),
                       coordinate(width)));
  const double usable = y_of(bytes_in(prediction.usable));
  svg.line(rank->device > prediction.usable ? "sy-o" : "sy-i", kLeft, usable, kLeft + width,
           usable);
  const std::string line = fmt::format("usable {}", number_of(prediction.usable, units));
  const std::string device = fmt::format("on the device {}", number_of(rank->device, units));
  svg.text(kLeft + width, 12, fitted(fmt::format("{} · dashed: {}", line, device), width - 30),
           "sy-q", "end");
  double free_from = kLeft;
  for (const PhaseStretch& stretch : stretches_of(trace, stage)) {
    const double x = x_of(stretch.start), until = x + 2 + text_width(stretch.kind);
    if (x < free_from || until > frame.width) continue;
    svg.line("sy-l", x, kTop - 4, x, kTop + 2);
    svg.text(x + 2, kTop - 5, stretch.kind, "sy-q");
    free_from = until + 8;
  }
  draw_seconds(svg, kLeft, width, bottom + 15, end);
  return svg.finish();
}

std::string schedule_svg(const StepTrace& trace, const Frame& frame) {
  constexpr double kTop = 6, kRow = 26, kBar = 15, kThin = 3;
  const double end = end_of(trace);
  if (!(end > 0) || trace.ranks.empty()) return "";
  std::vector<std::int64_t> shown;
  const std::size_t count = trace.ranks.size();
  for (std::size_t i = 0; i < std::min(count, kMostStages); ++i)
    shown.push_back(
        static_cast<std::int64_t>(count <= kMostStages ? i : i * (count - 1) / (kMostStages - 1)));
  double left = 0;
  for (const std::int64_t stage : shown)
    left = std::max(left, text_width(fmt::format("stage {}", stage + 1)) + 10);
  const double width = frame.width - left - 4;
  const auto x_of = [&](double time) { return left + time / end * width; };
  const double bottom = kTop + kRow * static_cast<double>(shown.size());
  double busy = 0;
  for (const TraceSlice& slice : trace.slices)
    if (slice.stream == 0 && slice.depth == 0) busy += slice.seconds;
  const double idle = std::max(0.0, 1 - busy / (end * static_cast<double>(count)));
  std::vector<LegendEntry> entries = {{paint_named("forward"), "forward"},
                                      {paint_named("backward"), "backward"},
                                      {paint_named("optimizer"), "optimizer"},
                                      {paint_named("network"), "exchange"},
                                      {paint_named("ground"), "waiting"}};
  if (std::any_of(trace.slices.begin(), trace.slices.end(),
                  [](const TraceSlice& slice) { return kind_of(slice.name) == "weights"; }))
    entries.insert(entries.begin() + 2, {paint_named("weights"), "weight gradients"});
  const double legend = frame.legend ? legend_height(entries, frame.width) : 0;
  Svg svg(frame, bottom + 20 + (legend > 0 ? legend + 6 : 0),
          fmt::format("The schedule of one step, {}: {} stages, {} of their time is waiting.",
                      print(Seconds(end)), count, print_percent(idle)));
  svg.plot(left, kTop, width, bottom - kTop, end, static_cast<double>(count));
  const bool merge = trace.slices.size() > kMostMarks;
  double y = kTop;
  for (const std::int64_t stage : shown) {
    svg.text(left - 8, y + 12, fmt::format("stage {}", stage + 1), "sy-t", "end");
    svg.begin_group(fmt::format("data-rank=\"{}\"", stage));
    svg.rect(paint_named("ground"), left, y, width, kBar);
    struct Pending {
      std::string_view kind;
      double start = 0, end = -1;
      std::string name;
    };
    Pending pending[2];
    const auto flush = [&](std::size_t row) {
      Pending& one = pending[row];
      if (one.end <= one.start) return;
      const double x = x_of(one.start), wide = x_of(one.end) - x;
      svg.rect(paint_named(one.kind), x, row == 0 ? y : y + kBar + 1,
               std::max(wide - (wide > 3 ? 0.5 : 0), 0.3), row == 0 ? kBar : kThin,
               one.name.empty() ? "" : fmt::format("data-name=\"{}\"", escaped(one.name)));
      one.end = one.start - 1;
    };
    for (const TraceSlice& slice : trace.slices) {
      if (slice.rank != stage || slice.depth != 0) continue;
      const std::size_t row = slice.stream == 0 ? 0 : 1;
      const std::string_view kind = row == 0 ? kind_of(slice.name) : "network";
      Pending& one = pending[row];
      const bool joins = one.end > one.start && one.kind == kind && (merge || row == 1) &&
                         x_of(slice.start) - x_of(one.end) < 0.6;
      if (joins) {
        one.end = std::max(one.end, slice.start + slice.seconds);
        if (row == 0) one.name.clear();
        continue;
      }
      flush(row);
      one = {kind, slice.start, slice.start + slice.seconds, row == 0 ? slice.name : ""};
    }
    flush(0);
    flush(1);
    svg.end_group();
    y += kRow;
  }
  draw_seconds(svg, left, width, bottom + 12, end);
  if (legend > 0) draw_legend(svg, entries, 1, bottom + 26, frame.width);
  return svg.finish();
}

}  // namespace steelyard
