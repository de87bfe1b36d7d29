#include "picture/answers.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "picture/memory_bar.h"
#include "picture/plane.h"
#include "quantity/print.h"
#include "report/amount.h"
#include "report/weighing.h"

namespace steelyard {
namespace {

// More dots than this are a cloud: the front and the nearest to it stay.
constexpr std::size_t kMostDots = 400;
constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;

double gib_of(Bytes bytes) { return static_cast<double>(bytes.value().value()) / kGiB; }

ChartAxis memory_axis() {
  return {"GiB", [](double value) { return coordinate(value); }, false, true};
}

ChartAxis step_axis() {
  return {"step", [](double value) { return value > 0 ? print(Seconds(value)) : "0"; }, false,
          false};
}

std::string number_words(double value) {
  const auto whole = static_cast<std::int64_t>(value);
  return value == static_cast<double>(whole) ? print_count(Checked(whole)) : coordinate(value);
}

// "tensor 2" of the axes behind the first.
std::string series_name(const std::vector<SweepAxis>& axes, const SweepPoint& point) {
  std::string name;
  for (std::size_t i = 1; i < axes.size(); ++i)
    name += fmt::format("{}{} {}", name.empty() ? "" : ", ",
                        axes[i].key.substr(axes[i].key.rfind('.') + 1), shown(point.values[i]));
  return name;
}

// A sweep over words has no axis: a row a point.
std::string sweep_rows_svg(const std::vector<SweepPoint>& points, const Frame& frame) {
  std::vector<MemoryBar> rows;
  Bytes usable{};
  for (const SweepPoint& point : points) {
    if (!point.weighed.prediction || rows.size() >= 40) continue;
    const Prediction& prediction = *point.weighed.prediction;
    MemoryBar row = bar_of_peak(prediction);
    for (const Value& value : point.values)
      row.label += (row.label.empty() ? "" : ", ") + shown(value);
    row.note = number_of(prediction.peak.device, scale_of(prediction, Units::kBinary));
    usable = std::max(usable, prediction.usable);
    rows.push_back(std::move(row));
  }
  if (rows.empty()) return "";
  return rows_svg(rows, usable, fmt::format("usable {}", print_memory(usable)), "GiB",
                  fmt::format("The need of {} runs against {} usable.", rows.size(), print(usable)),
                  frame);
}

TwoSides sides_of(const ComparedMemory& before, const ComparedMemory& after) {
  return {before.name, after.name,
          parts_of(before.piles, before.unaccounted, std::nullopt, std::nullopt),
          parts_of(after.piles, after.unaccounted, std::nullopt, std::nullopt)};
}

}  // namespace

std::string plan_svg(const PlanAnswer& answer, const Frame& frame) {
  const std::vector<WeighedLayout> front = front_of(answer.result);
  std::vector<Dot> dots;
  const auto add = [&](const WeighedLayout& weighed, bool on_front) {
    Dot dot;
    dot.x = weighed.seconds;
    dot.y = gib_of(Bytes(weighed.bytes));
    const Layout layout = layout_of(answer.space, weighed);
    dot.words = fmt::format("{} · {} · {} GiB", words_of(layout, " "),
                            print(Seconds(weighed.seconds)), print_memory(Bytes(weighed.bytes)));
    dot.front = on_front;
    dot.tight = weighed.fate == Fate::kTight;
    dots.push_back(std::move(dot));
  };
  for (const WeighedLayout& weighed : front) add(weighed, true);
  for (const WeighedLayout& weighed : answer.result.weighed) {
    if (dots.size() >= kMostDots) break;
    if (weighed.fate != Fate::kFits && weighed.fate != Fate::kTight) continue;
    if (std::none_of(front.begin(), front.end(),
                     [&](const WeighedLayout& one) { return one.layout == weighed.layout; }))
      add(weighed, false);
  }
  double limit = 0;
  std::string limit_words, finding = "No layout fits.";
  if (!answer.rows.empty()) {
    const PlanRow& best = answer.rows.front();
    Dot dot;
    dot.x = best.time.step.value();
    dot.y = gib_of(best.prediction.peak.device);
    dot.words = fmt::format("the answer: {}", words_of(best.layout, " "));
    dot.chosen = true;
    dots.push_back(std::move(dot));
    limit = gib_of(best.prediction.usable);
    limit_words = fmt::format("usable {}", print_memory(best.prediction.usable));
    finding = fmt::format("{} layouts by time and memory. The answer: {}, {} a step, {}.",
                          dots.size(), words_of(best.layout, " "), print(best.time.step),
                          print(best.prediction.peak.device));
  }
  return dots_svg(dots, step_axis(), memory_axis(), limit, limit_words, finding, frame);
}

std::string sweep_svg(const std::vector<SweepAxis>& axes, const std::vector<SweepPoint>& points,
                      const Frame& frame) {
  if (axes.empty()) return "";
  Curves curves;
  const std::string key = axes.front().key.substr(axes.front().key.rfind('.') + 1);
  curves.x = {key, number_words, true, true};
  std::replace(curves.x.words.begin(), curves.x.words.end(), '_', ' ');
  curves.y = memory_axis();
  std::map<std::string, std::size_t> index;
  Bytes usable{};
  for (const SweepPoint& point : points) {
    if (point.values.empty() || !point.values.front().is_number() ||
        point.values.front().as_number() <= 0)
      return sweep_rows_svg(points, frame);
    if (!point.weighed.prediction) continue;
    const Prediction& prediction = *point.weighed.prediction;
    const std::string name = series_name(axes, point);
    const auto [found, made] = index.try_emplace(name, curves.lines.size());
    if (made) curves.lines.push_back({name, {}, {}});
    Curves::Line& line = curves.lines[found->second];
    line.points.emplace_back(point.values.front().as_number(), gib_of(prediction.peak.device));
    line.band.emplace_back(gib_of(prediction.peak.low), gib_of(prediction.peak.high));
    usable = std::max(usable, prediction.usable);
  }
  if (curves.lines.empty()) return "";
  curves.limit = gib_of(usable);
  curves.limit_words = fmt::format("usable {}", print_memory(usable));
  curves.finding = fmt::format("The need in GiB against {}, {} points; usable {}.", curves.x.words,
                               points.size(), print_memory(usable));
  return curves_svg(curves, frame);
}

std::string largest_models_svg(const LargestModelAnswer& answer, const Frame& frame) {
  Curves curves;
  curves.x = {"devices", number_words, true, true};
  curves.y = {
      "parameters",
      [](double value) { return print_parameters(Checked(static_cast<std::int64_t>(value))); },
      true, true};
  double most = 0;
  for (const LargestModelCurve& curve : answer.curves) {
    Curves::Line line{curve.strategy.name, {}, {}};
    for (const LargestModel& point : curve.points)
      if (point.predicted > 0) {
        line.points.emplace_back(static_cast<double>(point.devices),
                                 static_cast<double>(point.predicted));
        most = std::max(most, line.points.back().second);
      }
    curves.lines.push_back(std::move(line));
  }
  curves.finding =
      fmt::format("The largest model that is sure to fit, against the number of devices: up to {}.",
                  print_parameters(Checked(static_cast<std::int64_t>(most))));
  return curves_svg(curves, frame);
}

std::string diagnosis_svg(const Diagnosis& diagnosis, const Frame& frame) {
  if (!diagnosis.has_piles) {
    if (!diagnosis.has_failure) return "";
    // The error text alone: what was allocated, what was free, and what did not fit.
    const MemoryFailure& failure = diagnosis.failure;
    MemoryBar row;
    const auto add = [&](const char* paint, const char* words, std::optional<Bytes> bytes) {
      if (bytes && *bytes > Bytes()) row.parts.push_back({paint_named(paint), words, *bytes});
    };
    add("activations", "allocated", failure.allocated);
    add("slack", "reserved, not allocated", failure.unallocated);
    add("runtime", "outside the allocator", diagnosis.outside);
    add("over", "requested", failure.tried);
    if (row.parts.empty()) return "";
    const Bytes capacity = failure.capacity.value_or(Bytes());
    return rows_svg({std::move(row)}, capacity, fmt::format("has {}", print(capacity)), "GiB",
                    fmt::format("At the failure: {} requested of a device of {}.",
                                print(failure.tried.value_or(Bytes())), print(capacity)),
                    frame);
  }
  const std::vector<BarPart> measured =
      parts_of(diagnosis.piles, diagnosis.unaccounted, diagnosis.slack, diagnosis.runtime);
  if (diagnosis.against) {
    const PhasePrediction& expected = *diagnosis.against;
    TwoSides sides{"predicted", "measured",
                   parts_of(expected.piles, Bytes(),
                            diagnosis.slack ? std::optional(expected.slack) : std::nullopt,
                            diagnosis.runtime ? std::optional(expected.runtime) : std::nullopt),
                   measured};
    return two_sides_svg(sides, frame);
  }
  MemoryBar row;
  row.parts = measured;
  return rows_svg({row}, diagnosis.failure.capacity.value_or(Bytes()),
                  diagnosis.failure.capacity
                      ? fmt::format("has {}", print_memory(*diagnosis.failure.capacity))
                      : "",
                  "GiB", fmt::format("What was alive: {}.", print(row.total())), frame);
}

std::string comparison_svg(const Compared& before, const Compared& after, const Frame& frame) {
  return two_sides_svg({before.name, after.name, bar_of_peak(before.prediction).parts,
                        bar_of_peak(after.prediction).parts},
                       frame);
}

std::string comparison_svg(const ComparedMemory& before, const ComparedMemory& after,
                           const Frame& frame) {
  return two_sides_svg(sides_of(before, after), frame);
}

}  // namespace steelyard
