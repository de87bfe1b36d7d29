#include "report/sweep_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "report/amount.h"
#include "report/json_values.h"
#include "report/plot.h"
#include "report/prediction_json.h"
#include "report/table.h"
#include "report/time_table.h"
#include "report/verdict_words.h"
#include "report/weighing.h"

namespace steelyard {
namespace {

using Json = nlohmann::ordered_json;

std::string cell_of(const Value& value) {
  if (value.is_integer()) return print_count(value.as_integer());
  if (value.is_string()) return value.as_string();
  return shown(value);
}

std::string words_of_largest(const Prediction& prediction) {
  const RankPrediction& rank = prediction.ranks[peak_rank_index(prediction)];
  for (const PhasePrediction& phase : rank.phases)
    if (phase.phase == rank.phase) return words_of(largest_pile(phase.piles));
  return "";
}

std::string verdict_cell(Verdict verdict, const Style& style) {
  return painted(style, ink_of(verdict), verdict_words(verdict));
}

double bytes_of(Bytes bytes) { return static_cast<double>(bytes.value().value()); }

// The curve of one axis that counts something; a second axis gives a line for each of its values.
std::string curve_text(const std::vector<SweepAxis>& axes, const std::vector<SweepPoint>& points,
                       const Style& style) {
  if (axes.empty() || axes.size() > 2) return "";
  const auto counts = [](const SweepAxis& axis) {
    return std::all_of(axis.values.begin(), axis.values.end(),
                       [](const Value& value) { return value.is_integer(); });
  };
  const std::size_t across = counts(axes[0]) || axes.size() == 1 ? 0 : 1;
  if (!counts(axes[across])) return "";
  Plot plot;
  plot.x_label = axes[across].key;
  plot.y_label = fmt::format("needs, {}", memory_unit(style.units));
  plot.limit_label = "usable";
  plot.x_text = [](double x) { return print_count(static_cast<std::int64_t>(std::llround(x))); };
  plot.y_text = [units = style.units](double y) {
    return print_memory(Bytes(static_cast<std::int64_t>(std::llround(y))), units);
  };
  const std::size_t lines = axes.size() == 2 ? axes[1 - across].values.size() : 1;
  if (lines > 8) return "";
  plot.series.resize(lines);
  for (std::size_t i = 0; i < lines; ++i) {
    plot.series[i].mark = lines == 1 ? 'o' : static_cast<char>('a' + i);
    if (axes.size() == 2) plot.series[i].name = cell_of(axes[1 - across].values[i]);
  }
  Bytes usable{};
  for (std::size_t at = 0; at < points.size(); ++at) {
    const auto& prediction = points[at].weighed.prediction;
    if (!prediction) continue;
    // The last axis is the fastest.
    const std::size_t line = axes.size() == 1 ? 0
                             : across == 0    ? at % lines
                                              : at / axes[1].values.size();
    plot.series[line].points.emplace_back(
        static_cast<double>(points[at].values[across].as_integer()),
        bytes_of(prediction->peak.device));
    usable = prediction->usable;
  }
  plot.limit = bytes_of(usable);
  return plot_text(plot, style);
}

}  // namespace

std::string sweep_text(const std::vector<SweepAxis>& axes, const std::vector<SweepPoint>& points,
                       const Style& style) {
  Bytes largest{};
  for (const SweepPoint& point : points)
    if (point.weighed.prediction)
      largest = std::max(largest, point.weighed.prediction->peak.device);
  const Scale scale = scale_for(largest, style.units);
  std::vector<Column> columns;
  for (const SweepAxis& axis : axes) {
    const std::size_t cut = axis.key.rfind('.');
    columns.push_back({cut == std::string::npos ? axis.key : axis.key.substr(cut + 1),
                       axis.values.front().is_integer()});
  }
  columns.push_back({fmt::format("needs, {}", scale.unit), true});
  for (const char* heading : {"low", "high", "usable"}) columns.push_back({heading, true});
  const bool timed = std::any_of(points.begin(), points.end(), [](const SweepPoint& point) {
    return point.weighed.prediction && point.weighed.prediction->time;
  });
  if (timed) columns.push_back({"step", true});
  columns.push_back({"verdict"});
  columns.push_back({"largest pile"});
  Table table(std::move(columns));
  for (const SweepPoint& point : points) {
    std::vector<std::string> cells;
    for (const Value& value : point.values) cells.push_back(cell_of(value));
    if (const auto& prediction = point.weighed.prediction) {
      for (const Bytes bytes : {prediction->peak.device, prediction->peak.low,
                                prediction->peak.high, prediction->usable})
        cells.push_back(number_of(bytes, scale));
      if (timed) cells.push_back(prediction->time ? print_seconds(prediction->time->step) : "-");
      cells.push_back(verdict_cell(prediction->verdict, style));
      const bool lacks_host =
          prediction->host_verdict != Verdict::kFits && prediction->peak.high <= prediction->usable;
      cells.push_back(lacks_host ? "host memory" : words_of_largest(*prediction));
    } else {
      cells.insert(cells.end(), timed ? 5 : 4, "-");
      cells.emplace_back("not allowed");
      cells.push_back(point.weighed.problems.empty() ? "" : point.weighed.problems.front().message);
    }
    table.add(std::move(cells));
  }
  std::string result = table.text(style);
  if (style.bars)
    if (const std::string curve = curve_text(axes, points, style); !curve.empty())
      result += "\n" + curve;
  return without_trailing_blanks(result);
}

Json json_of(const std::vector<SweepAxis>& axes, const std::vector<SweepPoint>& points) {
  Json over = Json::array();
  for (const SweepAxis& axis : axes) over.push_back(axis.key);
  Json rows = Json::array();
  for (const SweepPoint& point : points) {
    Json values = Json::object();
    for (std::size_t i = 0; i < axes.size(); ++i) values[axes[i].key] = json_of(point.values[i]);
    Json row = {{"values", std::move(values)}};
    if (point.weighed.prediction && point.weighed.job) {
      row["prediction"] = json_of(*point.weighed.job, *point.weighed.prediction, {}, false);
    } else {
      row["error"] = json_of(point.weighed.problems);
    }
    rows.push_back(std::move(row));
  }
  return {{"schema", "steelyard.sweep/1"}, {"over", std::move(over)}, {"points", std::move(rows)}};
}

std::string largest_models_text(const LargestModelAnswer& answer, const Style& style) {
  std::string result;
  Plot plot;
  plot.x_label = "devices";
  plot.y_label = "largest model that fits, parameters";
  plot.x_text = [](double x) { return print_count(static_cast<std::int64_t>(std::llround(x))); };
  plot.y_text = [](double y) {
    return print_parameters(static_cast<std::int64_t>(std::llround(y)));
  };
  for (const bool predicted : {true, false}) {
    std::vector<Column> columns = {
        {predicted ? "predicted, devices" : "states alone, devices", true}};
    for (const LargestModelCurve& curve : answer.curves)
      columns.push_back({curve.strategy.name, true});
    Table table(std::move(columns));
    for (std::size_t i = 0; !answer.curves.empty() && i < answer.curves.front().points.size();
         ++i) {
      std::vector<std::string> cells = {print_count(answer.curves.front().points[i].devices)};
      for (const LargestModelCurve& curve : answer.curves) {
        const LargestModel& point = curve.points[i];
        const std::int64_t size = predicted ? point.predicted : point.states_alone;
        cells.push_back(size == 0 ? "-" : print_parameters(size));
      }
      table.add(std::move(cells));
    }
    result += table.text(style) + "\n";
  }
  char mark = '0';
  for (const LargestModelCurve& curve : answer.curves) {
    Series series{curve.strategy.name, mark++, {}};
    for (const LargestModel& point : curve.points)
      series.points.emplace_back(static_cast<double>(point.devices),
                                 static_cast<double>(point.predicted));
    plot.series.push_back(std::move(series));
  }
  if (style.bars) result += plot_text(plot, style);
  result += wrapped(style,
                    "each is sure to fit, the high end of its band, as the run is written: nothing "
                    "else of it changes; plan --maximize parameters chooses the layout, too",
                    0) +
            "\n";
  return without_trailing_blanks(result);
}

Json json_of(const LargestModelAnswer& answer) {
  Json curves = Json::array();
  for (const LargestModelCurve& curve : answer.curves) {
    Json points = Json::array();
    for (const LargestModel& point : curve.points)
      points.push_back({{"devices", point.devices},
                        {"states_alone_parameters", point.states_alone},
                        {"predicted_parameters", point.predicted},
                        {"model", point.size}});
    curves.push_back({{"strategy", curve.strategy.name},
                      {"engine", curve.strategy.engine},
                      {"zero_stage", curve.strategy.zero_stage},
                      {"points", std::move(points)}});
  }
  return {{"schema", "steelyard.largest_models/1"},
          {"reserve", "simulated"},
          {"curves", std::move(curves)}};
}

}  // namespace steelyard
