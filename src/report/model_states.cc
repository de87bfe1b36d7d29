#include "report/model_states.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "plan/shared_states.h"
#include "report/table.h"

namespace steelyard {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array<std::string_view, 4> kStages = {"ddp", "zero 1", "zero 2", "zero 3"};

std::string figure(double value) { return value == 0 ? "-" : fmt::format("{:.4g}", value); }

double unit_bytes(Units units) {
  if (units == Units::kBytes) return 1;
  return units == Units::kSi ? 1e9 : static_cast<double>(std::int64_t{1} << 30);
}

// Four figures: 26.25 stays what the sources print.
std::string memory(double bytes, Units units) {
  if (units == Units::kBytes) return print_count(std::llround(bytes));
  const double size = bytes / unit_bytes(units);
  return size >= 9999.5 ? print_count(std::llround(size)) : figure(size);
}

double parameters_of_one_rank(const ModelStatesQuestion& question) {
  return static_cast<double>(question.parameters) /
         static_cast<double>(question.tensor * question.pipeline);
}

std::string weights_line(const ModelStatesQuestion& question, const Style& style) {
  const auto size = static_cast<double>(question.parameters);
  std::vector<std::string> parts;
  for (const auto& [name, bytes] :
       {std::pair{"fp32", 4.0}, {"16 bits", 2.0}, {"int8", 1.0}, {"int4, nf4", 0.5}})
    parts.push_back(fmt::format("{} {}", name, memory(size * bytes, style.units)));
  return fmt::format("weights alone, {}: ", memory_unit(style.units)) + facts(style, parts, 2) +
         "\n";
}

// "2 P + 14 P/N": the bytes that stay whole and those that N ranks share.
std::string shared_formula(double whole, double shared) {
  std::string apart = shared == 0 ? "" : figure(shared) + " P/N";
  if (whole == 0) return apart;
  return figure(whole) + " P" + (apart.empty() ? "" : " + " + apart);
}

// The same table in letters: one rank and two ranks tell how much of each stage is shared.
std::string formulas_text(const BytesPerParameter& states, const Style& style) {
  constexpr int kIndent = 6;
  std::vector<std::string> parts;
  for (std::size_t stage = 0; stage < kStages.size(); ++stage) {
    const double alone = bytes_per_rank(states, static_cast<std::int64_t>(stage), 1);
    const double halves = bytes_per_rank(states, static_cast<std::int64_t>(stage), 2);
    const double shared = 2 * (alone - halves);
    parts.push_back(fmt::format("{} {}", kStages[stage], shared_formula(alone - shared, shared)));
  }
  std::string result = "  P parameters, N data ranks\n      " + facts(style, parts, kIndent) + "\n";
  const double k = states.master + states.states;
  const std::string weights = figure(states.parameters);
  const std::string gradients = figure(states.gradients + states.accumulated_gradients);
  return result +
         fmt::format("  k = {} bytes of optimizer state for each parameter\n      ", figure(k)) +
         facts(style,
               {fmt::format("zero 1 {} + {} + k/N", weights, gradients),
                fmt::format("zero 2 {} + ({} + k)/N", weights, gradients),
                fmt::format("zero 3 ({} + {} + k)/N", weights, gradients)},
               kIndent) +
         "\n";
}

}  // namespace

std::string model_states_text(const ModelStatesQuestion& question, const Style& style) {
  const std::string unit(memory_unit(style.units));
  std::string result =
      fmt::format("{}   {} parameters{}\n\n", painted(style, Ink::kStrong, question.model),
                  print_count(question.parameters),
                  question.guessed ? " (a stated guess from the size alone)" : "");
  Table recipes({{fmt::format("bytes for each parameter, {}", question.optimizer->name)},
                 {"weights", true},
                 {"gradients", true},
                 {"master", true},
                 {"moments", true},
                 {"sum", true},
                 {unit, true}});
  for (const Precision& precision : precisions()) {
    const BytesPerParameter bytes = bytes_per_parameter(*question.optimizer, precision);
    std::string gradients = figure(bytes.gradients);
    if (bytes.accumulated_gradients > 0) gradients += "+" + figure(bytes.accumulated_gradients);
    recipes.add({precision.name, figure(bytes.parameters), gradients, figure(bytes.master),
                 figure(bytes.states), figure(bytes.total()),
                 memory(bytes.total() * static_cast<double>(question.parameters), style.units)});
  }
  result += recipes.text(style) + "\n" + weights_line(question, style);

  const BytesPerParameter states = bytes_per_parameter(*question.optimizer, *question.precision);
  const double parameters = parameters_of_one_rank(question);
  result += fmt::format("\nmodel states on each device, {} ({}, {})\n", unit,
                        question.precision->name, question.optimizer->name);
  if (question.tensor * question.pipeline > 1)
    result += fmt::format("tensor {} x pipeline {}: {} parameters on a rank\n", question.tensor,
                          question.pipeline, print_count(std::llround(parameters)));
  std::vector<Column> columns = {{"data ranks", true}};
  for (const std::string_view stage : kStages) columns.push_back({std::string(stage), true});
  columns.push_back({"cluster, ddp", true});
  columns.push_back({"redundant", true});
  Table ranks(std::move(columns));
  for (const std::int64_t count : question.data_ranks) {
    std::vector<std::string> cells = {print_count(count)};
    for (std::size_t stage = 0; stage < kStages.size(); ++stage)
      cells.push_back(
          memory(parameters * bytes_per_rank(states, static_cast<std::int64_t>(stage), count),
                 style.units));
    const double unique = static_cast<double>(question.parameters) * states.total();
    cells.push_back(memory(unique * static_cast<double>(count), style.units));
    cells.push_back(count == 1 ? "-"
                               : memory(unique * static_cast<double>(count - 1), style.units));
    ranks.add(std::move(cells));
  }
  result += ranks.text(style) + formulas_text(states, style);
  result += "\n" +
            wrapped(style,
                    "A rule of thumb: bytes for each parameter, nothing else. Activations, buffers "
                    "and the runtime come on top; "
                    "steelyard weigh counts them all.",
                    0) +
            "\n";
  return without_trailing_blanks(result);
}

Json json_of(const ModelStatesQuestion& question) {
  Json recipes = Json::array();
  for (const Precision& precision : precisions()) {
    const BytesPerParameter bytes = bytes_per_parameter(*question.optimizer, precision);
    recipes.push_back(
        {{"precision", precision.name},
         {"parameters", bytes.parameters},
         {"gradients", bytes.gradients},
         {"accumulated_gradients", bytes.accumulated_gradients},
         {"master_weights", bytes.master},
         {"optimizer_moments", bytes.states},
         {"total", bytes.total()},
         {"total_bytes", std::llround(bytes.total() * static_cast<double>(question.parameters))}});
  }
  const BytesPerParameter states = bytes_per_parameter(*question.optimizer, *question.precision);
  Json shared = Json::array();
  for (const std::int64_t count : question.data_ranks) {
    Json row = {{"data_ranks", count}};
    for (std::size_t stage = 0; stage < kStages.size(); ++stage)
      row[fmt::format("zero_{}_bytes", stage)] =
          std::llround(parameters_of_one_rank(question) *
                       bytes_per_rank(states, static_cast<std::int64_t>(stage), count));
    shared.push_back(std::move(row));
  }
  return {{"schema", "steelyard.model_states/1"},
          {"model", question.model},
          {"parameters", question.parameters},
          {"guessed", question.guessed},
          {"optimizer", question.optimizer->name},
          {"bytes_per_parameter", std::move(recipes)},
          {"per_device",
           {{"precision", question.precision->name},
            {"tensor", question.tensor},
            {"pipeline", question.pipeline},
            {"rows", std::move(shared)}}}};
}

}  // namespace steelyard
