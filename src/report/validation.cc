#include "report/validation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "report/json_values.h"
#include "report/prediction_json.h"
#include "report/table.h"

namespace steelyard {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kReasons = 3;      // of a source, in the text
constexpr std::size_t kTermsOfARow = 3;  // of a step, in the text

std::string percent(double value) { return fmt::format("{:.1f}", value); }
std::string signed_percent(double value) {
  // -0.04 would print as -0.0.
  const double rounded = std::round(value * 10.0) / 10.0;
  return rounded == 0 ? "0.0" : fmt::format("{:+.1f}", rounded);
}
double thousandths(double value) { return std::round(value * 1000.0) / 1000.0; }

std::string counts_text(const std::vector<SourceResult>& results, const Style& style) {
  SourceResult all;
  for (const SourceResult& result : results) {
    all.rows += result.rows;
    all.weighed += result.weighed;
    all.refused += result.refused;
    all.left_out += result.left_out;
    all.disagreeing += result.disagreeing;
  }
  // Only published tables have rows that contradict themselves.
  const bool apart = all.disagreeing > 0;
  std::vector<Column> columns = {{"source"}, {"rows", true}, {"weighed", true}};
  columns.insert(columns.end(), {{"refused", true}, {"left out", true}});
  if (apart) columns.push_back({"of these disagree", true});
  Table table(columns);
  const auto add = [&](const std::string& name, const SourceResult& result) {
    std::vector<std::string> cells = {name, print_count(result.rows), print_count(result.weighed)};
    cells.insert(cells.end(), {print_count(result.refused), print_count(result.left_out)});
    if (apart) cells.push_back(print_count(result.disagreeing));
    table.add(cells);
  };
  for (const SourceResult& result : results) add(result.name, result);
  if (results.size() > 1) add("all", all);
  return table.text(style);
}

std::string errors_text(const std::vector<SourceResult>& results, const Style& style) {
  Table table({{"error, % of measured"},
               {"reading"},
               {"rows", true},
               {"equal", true},
               {"in band", true},
               {"bias", true},
               {"median", true},
               {"95 %", true},
               {"max", true}});
  for (const SourceResult& result : results) {
    std::string name = result.name;
    for (const auto& [label, figures] : result.errors) {
      table.add({name, label, print_count(figures.rows), print_count(figures.equal),
                 figures.in_band ? print_count(*figures.in_band) : "-",
                 signed_percent(figures.bias), percent(figures.median),
                 percent(figures.percentile_95), percent(figures.largest)});
      name.clear();
    }
  }
  return table.rows() == 0 ? "" : table.text(style);
}

std::string outcomes_text(const std::vector<SourceResult>& results, const Style& style) {
  Table table({{"out of memory"},
               {"died", true},
               {"called", true},
               {"tight", true},
               {"missed", true},
               {"ran", true},
               {"fit", true},
               {"tight", true},
               {"false alarms", true}});
  for (const SourceResult& result : results) {
    const OutcomeFigures& outcomes = result.outcomes;
    if (outcomes.rows() == 0) continue;
    table.add({result.name, print_count(outcomes.died.rows()),
               print_count(outcomes.died.does_not_fit), print_count(outcomes.died.tight),
               print_count(outcomes.died.fits), print_count(outcomes.ran.rows()),
               print_count(outcomes.ran.fits), print_count(outcomes.ran.tight),
               print_count(outcomes.ran.does_not_fit)});
  }
  return table.rows() == 0 ? "" : table.text(style);
}

std::string times_text(const std::vector<SourceResult>& results, const Style& style) {
  Table table({{"step time, %"},
               {"device"},
               {"rows", true},
               {"in band", true},
               {"mean", true},
               {"median", true},
               {"max", true},
               {"bias", true},
               {"rank", true},
               {"median as guess", true}});
  for (const SourceResult& result : results) {
    std::string name = result.name;
    for (const auto& [group, figures] : result.times) {
      table.add({name, group, print_count(figures.rows), print_count(figures.in_band),
                 percent(figures.mean), percent(figures.median), percent(figures.largest),
                 signed_percent(figures.bias),
                 figures.rows > 2 ? fmt::format("{:.3f}", figures.rank_correlation) : "-",
                 percent(figures.of_median)});
      name.clear();
    }
  }
  return table.rows() == 0 ? "" : table.text(style);
}

std::string reasons_text(const std::vector<SourceResult>& results, const Style& style) {
  Table table({{"not weighed"}, {"rows", true}, {"why"}});
  for (const SourceResult& result : results) {
    std::string name = result.name;
    const auto add = [&](const auto& reasons, std::string_view kind) {
      std::int64_t rest = 0;
      for (std::size_t i = 0; i < reasons.size(); ++i) {
        if (i >= kReasons) {
          rest += reasons[i].second;
          continue;
        }
        table.add(
            {name, print_count(reasons[i].second), fmt::format("{}: {}", kind, reasons[i].first)});
        name.clear();
      }
      if (rest > 0) table.add({name, print_count(rest), fmt::format("{} for other reasons", kind)});
    };
    add(result.refused_because, "refused");
    add(result.left_out_because, "left out");
  }
  return table.rows() == 0 ? "" : table.text(style);
}

// Names of rows are long, so they stand last.
std::vector<std::string> cells_of(const JudgedRow& row, const JudgedReading& reading,
                                  const Style& style) {
  return {row.source,
          label_of(reading.reading),
          print_memory(reading.reading.bytes, style.units),
          print_memory(reading.predicted, style.units),
          signed_percent(percent_error(reading.reading.bytes, reading.predicted)),
          reading.suspect.empty() ? "-" : reading.suspect,
          row.id};
}

Table readings_table(std::string_view heading, const Style& style) {
  return Table({{std::string(heading)},
                {"reading"},
                {fmt::format("measured, {}", memory_unit(style.units)), true},
                {"predicted", true},
                {"error, %", true},
                {"pile"},
                {"row"}});
}

std::string worst_text(const std::vector<SourceResult>& results, const Style& style) {
  Table table = readings_table("worst", style);
  for (const SourceResult& result : results)
    for (const auto& [row, reading] : result.worst) table.add(cells_of(*row, *reading, style));
  return table.rows() == 0 ? "" : table.text(style);
}

std::string_view outcome_of(const JudgedRow& row) {
  if (!row.out_of_memory) return "";
  return *row.out_of_memory ? "died" : "ran";
}

double percent_error(const TimedStep& step) {
  return 100 * (step.seconds.predicted / step.seconds.measured - 1);
}

// "compute 71 %, data 12 %"
std::string largest_terms(const TimeTerms& terms) {
  std::vector<std::pair<double, std::string_view>> parts;
  for (std::size_t i = 0; i < kTimeTerms; ++i)
    parts.emplace_back(terms.seconds[i] / terms.total(), name_of(static_cast<TimeTerm>(i)));
  std::stable_sort(parts.begin(), parts.end(),
                   [](const auto& one, const auto& other) { return one.first > other.first; });
  std::string text;
  for (std::size_t i = 0; i < kTermsOfARow && parts[i].first >= 0.005; ++i)
    text += fmt::format("{}{} {:.0f} %", i == 0 ? "" : ", ", parts[i].second, 100 * parts[i].first);
  return text;
}

std::string rows_text(const std::vector<SourceResult>& results, const Style& style) {
  Table readings = readings_table("every row", style);
  Table steps({{"every row"},
               {"measured, s", true},
               {"predicted", true},
               {"error, %", true},
               {"largest terms"},
               {"row"}});
  Table outcomes({{"every row"}, {"measured"}, {"predicted"}, {"row"}});
  for (const SourceResult& result : results) {
    for (const JudgedRow* row : result.judged) {
      if (!row->weighed()) continue;
      for (const JudgedReading& reading : row->readings)
        readings.add(cells_of(*row, reading, style));
      if (row->step)
        steps.add({row->source, fmt::format("{:.4g}", row->step->seconds.measured),
                   fmt::format("{:.4g}", row->step->seconds.predicted),
                   signed_percent(percent_error(*row->step)), largest_terms(row->step->terms),
                   row->id});
      if (row->out_of_memory) {
        std::string verdict(name_of(row->verdict));
        for (char& letter : verdict)
          if (letter == '_') letter = ' ';
        outcomes.add({row->source, std::string(outcome_of(*row)), std::move(verdict), row->id});
      }
    }
  }
  std::string text;
  for (const Table* table : {&readings, &steps, &outcomes})
    if (table->rows() > 0) text += (text.empty() ? "" : "\n") + table->text(style);
  return text;
}

std::string assumed_text(const std::vector<SourceResult>& results, const Style& style) {
  Table table({{"assumed"}, {"rows", true}, {"what"}, {"why"}});
  for (const SourceResult& result : results) {
    std::string name = result.name;
    for (const auto& [assumed, rows] : result.assumed) {
      table.add({name, print_count(rows),
                 assumed.value.empty() ? assumed.key : assumed.key + " " + assumed.value,
                 assumed.why});
      name.clear();
    }
  }
  return table.rows() == 0 ? "" : table.text(style);
}

Json json_of(const std::vector<std::pair<std::string, std::int64_t>>& reasons) {
  Json list = Json::array();
  for (const auto& [reason, rows] : reasons) list.push_back({{"reason", reason}, {"rows", rows}});
  return list;
}

Json json_of(const OutcomeFigures& outcomes) {
  return {{"died", outcomes.died.rows()},      {"called", outcomes.died.does_not_fit},
          {"died_tight", outcomes.died.tight}, {"missed", outcomes.died.fits},
          {"ran", outcomes.ran.rows()},        {"fit", outcomes.ran.fits},
          {"ran_tight", outcomes.ran.tight},   {"false_alarms", outcomes.ran.does_not_fit}};
}

Json json_of(const JudgedReading& reading) {
  Json json = {{"reading", label_of(reading.reading)},
               {"measured_bytes", reading.reading.bytes.value().value()},
               {"predicted_bytes", reading.predicted.value().value()}};
  if (reading.reading.rounding > Bytes{})
    json["rounding_bytes"] = reading.reading.rounding.value().value();
  if (reading.band) {
    json["low_bytes"] = reading.band->low.value().value();
    json["high_bytes"] = reading.band->high.value().value();
  }
  json["error_percent"] = thousandths(percent_error(reading.reading.bytes, reading.predicted));
  if (!reading.suspect.empty()) json["pile"] = reading.suspect;
  return json;
}

// What the predicted bytes are made of; only of every row, for who derives something from many.
Json with_piles(const JudgedReading& reading) {
  Json json = json_of(reading);
  Json& piles = json["piles"];
  for (std::size_t pile = 0; pile < kPileCount; ++pile)
    piles[std::string(name_of(static_cast<Pile>(pile)))] =
        reading.piles.bytes[pile].value().value();
  piles["slack"] = reading.slack.value().value();
  piles["runtime"] = reading.runtime.value().value();
  return json;
}

Json json_of(const TimedStep& step) {
  Json terms = Json::object();
  for (std::size_t i = 0; i < kTimeTerms; ++i)
    if (step.terms.seconds[i] > 0)
      terms[std::string(name_of(static_cast<TimeTerm>(i)))] = step.terms.seconds[i];
  return {{"measured_seconds", step.seconds.measured},
          {"predicted_seconds", step.seconds.predicted},
          {"low_seconds", step.seconds.low},
          {"high_seconds", step.seconds.high},
          {"error_percent", thousandths(percent_error(step))},
          {"terms", std::move(terms)}};
}

Json json_of(const JudgedRow& row) {
  Json json = {{"id", row.id}};
  if (!row.run.is_null()) json["run"] = json_of(row.run);
  if (!row.left_out.empty()) json["left_out"] = row.left_out;
  if (row.disagrees) json["disagrees"] = true;
  if (!row.inferred.empty()) json["inferred"] = row.inferred;
  if (!row.refused.empty()) json["refused"] = row.refused;
  if (!row.weighed()) return json;
  json["engine"] = row.engine;
  json["implementation"] = row.implementation;
  if (row.out_of_memory) {
    json["out_of_memory"] = *row.out_of_memory;
    json["spare_bytes"] = row.spare;
    json["working_bytes"] = row.working.value().value();
  }
  json["verdict"] = name_of(row.verdict);
  Json readings = Json::array();
  for (const JudgedReading& reading : row.readings) readings.push_back(with_piles(reading));
  json["readings"] = std::move(readings);
  if (row.step) json["step_time"] = json_of(*row.step);
  return json;
}

Json json_of(const SourceResult& result, const ValidationView& view) {
  Json errors = Json::array();
  for (const auto& [label, figures] : result.errors)
    errors.push_back({{"reading", label},
                      {"rows", figures.rows},
                      {"equal", figures.equal},
                      {"in_band", figures.in_band ? Json(*figures.in_band) : Json()},
                      {"bias_percent", thousandths(figures.bias)},
                      {"median_percent", thousandths(figures.median)},
                      {"percentile_95_percent", thousandths(figures.percentile_95)},
                      {"max_percent", thousandths(figures.largest)}});
  Json times = Json::array();
  for (const auto& [group, figures] : result.times)
    times.push_back({{"device", group},
                     {"rows", figures.rows},
                     {"in_band", figures.in_band},
                     {"mean_percent", thousandths(figures.mean)},
                     {"median_percent", thousandths(figures.median)},
                     {"max_percent", thousandths(figures.largest)},
                     {"bias_percent", thousandths(figures.bias)},
                     {"rank_correlation", thousandths(figures.rank_correlation)},
                     {"median_as_guess_percent", thousandths(figures.of_median)}});
  Json worst = Json::array();
  for (const auto& [row, reading] : result.worst) {
    Json one = {{"id", row->id}};
    one.update(json_of(*reading));
    worst.push_back(std::move(one));
  }
  Json assumed = Json::array();
  for (const auto& [what, rows] : result.assumed)
    assumed.push_back(
        {{"what", what.key}, {"value", what.value}, {"why", what.why}, {"rows", rows}});
  Json json = {{"source", result.name},
               {"about", result.about},
               {"rows", result.rows},
               {"weighed", result.weighed},
               {"refused", result.refused},
               {"left_out", result.left_out},
               {"disagreeing", result.disagreeing},
               {"refused_because", json_of(result.refused_because)},
               {"left_out_because", json_of(result.left_out_because)},
               {"errors", std::move(errors)},
               {"step_times", std::move(times)},
               {"out_of_memory", json_of(result.outcomes)},
               {"worst", std::move(worst)},
               {"assumed", std::move(assumed)}};
  if (view.every_row) {
    Json rows = Json::array();
    for (const JudgedRow* row : result.judged) rows.push_back(json_of(*row));
    json["judged"] = std::move(rows);
  }
  return json;
}

}  // namespace

std::string validation_text(const std::vector<SourceResult>& results, const ValidationView& view,
                            const Style& style) {
  std::string text;
  for (const std::string& part :
       {view.every_row ? rows_text(results, style) : std::string(), counts_text(results, style),
        errors_text(results, style), times_text(results, style), outcomes_text(results, style),
        reasons_text(results, style), worst_text(results, style),
        view.assumed ? assumed_text(results, style) : std::string()}) {
    if (part.empty()) continue;
    text += (text.empty() ? "" : "\n") + part;
  }
  return without_trailing_blanks(text);
}

Json json_of(const std::vector<SourceResult>& results, const ValidationView& view,
             const Diagnostics& problems) {
  Json sources = Json::array();
  for (const SourceResult& result : results) sources.push_back(json_of(result, view));
  Json json = {{"schema", "steelyard.validation/1"}, {"sources", std::move(sources)}};
  if (!problems.empty()) json["problems"] = steelyard::json_of(problems)["problems"];
  return json;
}

}  // namespace steelyard
