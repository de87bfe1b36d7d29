#include "picture/plane.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace steelyard {
namespace {

constexpr double kPlotTop = 26, kPlotHeight = 230, kPlotBottom = 38, kPlotRight = 14;
constexpr std::array<std::string_view, 6> kLinePaints = {
    "parameters", "activations", "communication", "optimizer_moments", "runtime", "temporary"};
// Told apart without colours, too.
constexpr std::array<std::string_view, 6> kDashes = {"", "7 3", "2 3", "9 3 2 3", "4 2", "1 2"};

// From a value to its place between two ends.
class Way {
 public:
  Way(const ChartAxis& axis, double low, double high) : logarithmic_(axis.logarithmic) {
    if (logarithmic_) {
      low_ = std::log2(low);
      high_ = std::log2(high);
    } else {
      const double room = (high - low) * 0.06;
      low_ = axis.from_zero ? 0 : std::max(low - room, low > 0 ? 0.0 : low - room);
      high_ = high + (axis.from_zero ? high * 0.04 : room);
    }
    if (!(high_ > low_)) high_ = low_ + 1;
  }
  double share(double value) const {
    const double at = logarithmic_ ? std::log2(value) : value;
    return std::clamp((at - low_) / (high_ - low_), 0.0, 1.0);
  }
  std::vector<double> ticks(int count) const {
    if (!logarithmic_) {
      std::vector<double> shown;
      const double span = high_ - low_;
      // Round numbers of the span's size, from the first within it.
      const std::vector<double> steps = round_ticks(span, count);
      const double step = steps.size() > 1 ? steps[1] : span;
      for (double at = std::ceil(low_ / step - 1e-9) * step; at <= high_ * (1 + 1e-9); at += step)
        shown.push_back(at);
      return shown;
    }
    // Powers of two, thinned to what there is room for.
    const auto first = static_cast<int>(std::ceil(low_ - 1e-9));
    const auto last = static_cast<int>(std::floor(high_ + 1e-9));
    const int stride = std::max(1, (last - first + count) / std::max(count, 1));
    std::vector<double> shown;
    for (int power = first; power <= last; power += stride) shown.push_back(std::exp2(power));
    return shown;
  }
  double high() const { return high_; }

 private:
  bool logarithmic_;
  double low_ = 0, high_ = 1;
};

struct Ends {
  double low = std::numeric_limits<double>::infinity(), high = 0;
  void take(double value) {
    if (!std::isfinite(value)) return;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  bool empty() const { return !std::isfinite(low); }
};

bool drawable(const ChartAxis& axis, double value) {
  return std::isfinite(value) && (!axis.logarithmic || value > 0);
}

// Axes, their ticks and words; returns the place of a point.
class Plane {
 public:
  Plane(Svg& svg, const ChartAxis& x, const ChartAxis& y, const Ends& x_ends, const Ends& y_ends)
      : x_(x, x_ends.low, x_ends.high), y_(y, y_ends.low, y_ends.high) {
    const int x_count = svg.width() > 420 ? 7 : 4;
    for (const double tick : y_.ticks(5)) left_ = std::max(left_, text_width(y.text(tick)) + 12);
    width_ = svg.width() - left_ - kPlotRight;
    svg.plot(left_, kPlotTop, width_, kPlotHeight, x_.high(), y_.high());
    svg.text(2, 12, y.words, "sy-q");
    svg.text(svg.width() - 2, kPlotTop + kPlotHeight + 32, x.words, "sy-q", "end");
    for (const double tick : y_.ticks(5)) {
      svg.line("sy-l", left_, at_y(tick), left_ + width_, at_y(tick));
      svg.text(left_ - 6, at_y(tick) + 4, y.text(tick), "sy-q", "end");
    }
    double last = -1e9;
    for (const double tick : x_.ticks(x_count)) {
      const std::string words = x.text(tick);
      const double half = text_width(words) / 2;
      const double place =
          std::clamp(at_x(tick), half + 2, std::max(svg.width() - half - 2, half + 2));
      if (place - half < last) continue;
      svg.text(place, kPlotTop + kPlotHeight + 16, words, "sy-q", "middle");
      last = place + half + 6;
    }
  }
  double at_x(double value) const { return left_ + x_.share(value) * width_; }
  double at_y(double value) const { return kPlotTop + (1 - y_.share(value)) * kPlotHeight; }
  double left() const { return left_; }
  double right() const { return left_ + width_; }

 private:
  Way x_, y_;
  double left_ = 20, width_ = 0;
};

void draw_limit(Svg& svg, const Plane& plane, double limit, const std::string& words) {
  if (!(limit > 0)) return;
  const double y = plane.at_y(limit);
  svg.line("sy-o", plane.left(), y, plane.right(), y);
  svg.text(svg.width() - 2, 12, words, "sy-r", "end");
}

}  // namespace

std::string dots_svg(const std::vector<Dot>& dots, const ChartAxis& x, const ChartAxis& y,
                     double limit, const std::string& limit_words, const std::string& finding,
                     const Frame& frame) {
  Ends x_ends, y_ends;
  for (const Dot& dot : dots) {
    if (!drawable(x, dot.x) || !drawable(y, dot.y)) continue;
    x_ends.take(dot.x);
    y_ends.take(dot.y);
  }
  if (x_ends.empty()) return "";
  if (limit > 0) y_ends.take(limit);
  std::vector<LegendEntry> entries = {{paint_named("parameters"), "on the front"},
                                      {paint_named("mark"), "beaten by another"},
                                      {paint_named("activations"), "the answer"}};
  if (std::any_of(dots.begin(), dots.end(), [](const Dot& dot) { return dot.tight; }))
    entries.push_back({paint_named("tight"), "tight"});
  const double legend = frame.legend ? legend_height(entries, frame.width) : 0;
  const double bottom = kPlotTop + kPlotHeight + kPlotBottom;
  Svg svg(frame, bottom + (legend > 0 ? legend + 6 : 0), finding);
  const Plane plane(svg, x, y, x_ends, y_ends);
  draw_limit(svg, plane, limit, limit_words);
  std::vector<std::size_t> order(dots.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  const auto rank = [&](std::size_t i) { return dots[i].chosen ? 2 : dots[i].front ? 1 : 0; };
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return rank(a) < rank(b); });
  std::vector<const Dot*> front;
  for (const Dot& dot : dots)
    if (dot.front && drawable(x, dot.x) && drawable(y, dot.y)) front.push_back(&dot);
  std::stable_sort(front.begin(), front.end(),
                   [](const Dot* a, const Dot* b) { return a->x < b->x; });
  if (front.size() > 1) {
    std::string path;
    for (const Dot* dot : front)
      path += path.empty() ? fmt::format("M{} {}", coordinate(plane.at_x(dot->x)),
                                         coordinate(plane.at_y(dot->y)))
                           : fmt::format("H{}V{}", coordinate(plane.at_x(dot->x)),
                                         coordinate(plane.at_y(dot->y)));
    svg.path("class=\"sy-s\" fill=\"none\" stroke=\"#6b7680\" stroke-dasharray=\"3 3\"", path);
  }
  for (const std::size_t i : order) {
    const Dot& dot = dots[i];
    if (!drawable(x, dot.x) || !drawable(y, dot.y)) continue;
    svg.begin_group(fmt::format("data-index=\"{}\"", i));
    svg.raw("<title>" + escaped(dot.words) + "</title>");
    svg.circle(paint_named(dot.chosen  ? "activations"
                           : dot.tight ? "tight"
                           : dot.front ? "parameters"
                                       : "mark"),
               plane.at_x(dot.x), plane.at_y(dot.y),
               dot.chosen  ? 7
               : dot.front ? 5
                           : 4);
    svg.end_group();
  }
  if (legend > 0) draw_legend(svg, entries, 1, bottom + 4, frame.width);
  return svg.finish();
}

std::string curves_svg(const Curves& curves, const Frame& frame) {
  Ends x_ends, y_ends;
  for (const Curves::Line& line : curves.lines) {
    for (const auto& [x, y] : line.points) {
      if (!drawable(curves.x, x) || !drawable(curves.y, y)) continue;
      x_ends.take(x);
      y_ends.take(y);
    }
    for (const auto& [low, high] : line.band)
      if (drawable(curves.y, low) && drawable(curves.y, high)) y_ends.take(high);
  }
  if (x_ends.empty()) return "";
  if (curves.limit > 0) y_ends.take(curves.limit);
  std::vector<LegendEntry> entries;
  for (std::size_t i = 0; i < curves.lines.size() && curves.lines.size() > 1; ++i)
    entries.push_back({paint_named(kLinePaints[i % kLinePaints.size()]), curves.lines[i].name});
  const double legend = frame.legend ? legend_height(entries, frame.width) : 0;
  const double bottom = kPlotTop + kPlotHeight + kPlotBottom;
  Svg svg(frame, bottom + (legend > 0 ? legend + 6 : 0), curves.finding);
  const Plane plane(svg, curves.x, curves.y, x_ends, y_ends);
  const auto place = [&](double x, double y) {
    return coordinate(plane.at_x(x)) + " " + coordinate(plane.at_y(y));
  };
  for (std::size_t i = 0; i < curves.lines.size(); ++i) {
    const Curves::Line& line = curves.lines[i];
    const Paint paint = paint_named(kLinePaints[i % kLinePaints.size()]);
    if (line.band.size() == line.points.size() && line.points.size() > 1) {
      std::string there, back;
      for (std::size_t k = 0; k < line.points.size(); ++k) {
        there += (k == 0 ? "M" : "L") + place(line.points[k].first, line.band[k].second);
        back = "L" + place(line.points[k].first, line.band[k].first) + back;
      }
      svg.path(svg.fill(paint) + " opacity=\".18\"", there + back + "z");
    }
    std::string path;
    svg.begin_group(fmt::format("data-series=\"{}\"", i));
    for (const auto& [x, y] : line.points) {
      if (!drawable(curves.x, x) || !drawable(curves.y, y)) continue;
      path += (path.empty() ? "M" : "L") + place(x, y);
    }
    const std::string_view dash = kDashes[i % kDashes.size()];
    svg.path(fmt::format("class=\"sy-k-{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"{}",
                         paint.name, paint.light,
                         dash.empty() ? "" : fmt::format(" stroke-dasharray=\"{}\"", dash)),
             path);
    for (const auto& [x, y] : line.points) {
      if (!drawable(curves.x, x) || !drawable(curves.y, y)) continue;
      svg.raw("<g>");
      svg.raw("<title>" +
              escaped(fmt::format("{}{} {}: {} {}", line.name, line.name.empty() ? "" : ": ",
                                  curves.x.text(x), curves.y.text(y), curves.y.words)) +
              "</title>");
      svg.circle(paint, plane.at_x(x), plane.at_y(y), 3.5);
      svg.end_group();
    }
    svg.end_group();
  }
  draw_limit(svg, plane, curves.limit, curves.limit_words);
  if (legend > 0) draw_legend(svg, entries, 1, bottom + 4, frame.width);
  return svg.finish();
}

}  // namespace steelyard
