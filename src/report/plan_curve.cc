#include "report/plan_curve.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "report/amount.h"
#include "report/plan_extremes.h"
#include "report/plan_json.h"
#include "report/plot.h"
#include "report/table.h"
#include "report/time_table.h"

namespace steelyard {
namespace {

using Json = nlohmann::ordered_json;

std::int64_t unit_of(const Curve& curve) {
  return curve.wanted == Wanted::kMostParameters ? 1'000'000 : 1;
}

}  // namespace

std::string curve_text(const Curve& curve, const Style& style) {
  const std::string name = curve.wanted ? std::string(name_of(*curve.wanted)) : "step";
  std::vector<Column> columns = {{"devices", true}};
  if (curve.wanted) columns.push_back({name, true});
  for (const char* heading : {"step", "tokens/s a device", "MFU"})
    columns.push_back({heading, true});
  columns.push_back({"layout"});
  Table table(std::move(columns));
  Series series{name, 'o', {}};
  for (const CurvePoint& point : curve.points) {
    std::vector<std::string> cells = {print_count(point.devices)};
    if (curve.wanted) cells.push_back(point.row ? print_count(point.value * unit_of(curve)) : "-");
    if (!point.row) {
      for (const char* cell : {"-", "-", "-"}) cells.emplace_back(cell);
      cells.emplace_back(point.unfinished ? "not finished" : "nothing fits");
      table.add(std::move(cells));
      continue;
    }
    const StepTime& time = point.row->time;
    cells.push_back(print_seconds(time.step));
    cells.push_back(fmt::format("{:.0f}", time.tokens_per_second_per_device));
    cells.push_back(fmt::format("{:.0f} %", 100 * time.model_flops_utilization));
    cells.push_back(words_of(point.row->layout, " ") +
                    (point.unfinished ? " (not finished: the best so far)" : ""));
    table.add(std::move(cells));
    series.points.emplace_back(
        static_cast<double>(point.devices),
        curve.wanted ? static_cast<double>(point.value * unit_of(curve)) : time.step.value());
  }
  Plot plot;
  plot.x_label = "devices";
  plot.y_label = name;
  plot.series = {series};
  plot.x_text = [](double devices) { return print_count(static_cast<std::int64_t>(devices)); };
  plot.y_text = [&](double value) {
    return curve.wanted ? print_count(static_cast<std::int64_t>(value))
                        : print_seconds(Seconds(value));
  };
  const std::string drawn = plot_text(plot, style);
  return without_trailing_blanks(
      table.text(style) + (drawn.empty() ? "" : "\n" + drawn) +
      fmt::format("{} sequences a step on each of them\n", print_count(curve.global_batch)));
}

Json json_of(const Curve& curve) {
  Json points = Json::array();
  for (const CurvePoint& point : curve.points) {
    Json json = {{"devices", point.devices}, {"fits", point.row.has_value()}};
    if (point.unfinished) json["finished"] = false;
    if (point.row && curve.wanted) json["value"] = point.value * unit_of(curve);
    if (point.row) json["best"] = json_of(*point.row);
    points.push_back(std::move(json));
  }
  return {{"schema", "steelyard.plan_curve/1"},
          {"wanted", curve.wanted ? name_of(*curve.wanted) : "time"},
          {"global_batch", curve.global_batch},
          {"points", std::move(points)}};
}

}  // namespace steelyard
