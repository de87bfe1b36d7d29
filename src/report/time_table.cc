#include "report/time_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "predict/step_band.h"
#include "report/bar.h"
#include "report/budget_text.h"
#include "report/host_need.h"
#include "report/table.h"

namespace steelyard {
namespace {

constexpr int kTermColumns = 14;
constexpr int kBarColumns = 32;

// What leads decides what to change.
std::string bound_of(const StepTime& time) {
  const TimeTerms& terms = time.terms;
  std::pair<double, std::string_view> most{0, ""};
  for (std::size_t i = 0; i < kTimeTerms; ++i)
    if (terms.seconds[i] > most.first) most = {terms.seconds[i], name_of(static_cast<TimeTerm>(i))};
  return fmt::format("{}-bound", most.second);
}

std::string note_of(const StepTime& time, TimeTerm term, const Job& job) {
  if (time.hidden[term] > 0)
    return fmt::format("{} more behind compute", print_seconds(Seconds(time.hidden[term])));
  if (term == TimeTerm::kBubble && job.parallel.pipeline > 1)
    return fmt::format("{} stages, {} micro-batches", job.parallel.pipeline.value(),
                       job.training.gradient_accumulation);
  return "";
}

// "hgx-a100 sends 200 GB/s"
std::string way_out(const Machine& machine) {
  return fmt::format("{} sends {:.3g} GB/s", machine.name, machine.network().value() * 1e-9);
}

// What the machines are, where there are several, and what of the step is not known for it.
std::string machine_line(const Job& job, const Style& style) {
  const Cluster& cluster = job.cluster;
  if (cluster.devices <= cluster.devices_per_node) return "";
  const std::vector<OnMachine> steps = step_on_machines(job);
  if (steps.size() < 2) return facts(style, {way_out(*cluster.machine)}) + "\n";
  std::vector<std::string> known = {way_out(*cluster.machine) + ", assumed"};
  if (const OnMachine& slowest = slowest_of(steps); slowest.machine != cluster.machine.get())
    known.push_back(
        fmt::format("{}: {} a step", way_out(*slowest.machine), print_seconds(slowest.step)));
  known.emplace_back("--machine or --network says which it is");
  return facts(style, known) + "\n";
}

}  // namespace

std::string print_seconds(Seconds seconds) {
  const double value = seconds.value();
  const auto three = [](double number, const char* unit) {
    return number >= 99.95 ? fmt::format("{:.0f} {}", number, unit)
                           : fmt::format("{:.1f} {}", number, unit);
  };
  if (value < 1e-3) return three(value * 1e6, "us");
  if (value < 1) return three(value * 1e3, "ms");
  if (value < 7200) return three(value, "s");
  return three(value / 3600, "h");
}

std::string time_text(const Weighing& weighing, const std::vector<WhatIf>& what_if,
                      const std::optional<Budget>& budget, const Style& style) {
  const StepTime& time = *weighing.prediction.time;
  std::string result = verdict_line(weighing.prediction, style);
  const std::vector<std::string> known = {
      fmt::format("{} a step ({} to {})", print_seconds(time.step), print_seconds(time.low),
                  print_seconds(time.high)),
      bound_of(time), fmt::format("{:.0f} % MFU", 100 * time.model_flops_utilization),
      fmt::format("{:.0f} tokens/s a device", time.tokens_per_second_per_device)};
  result += facts(style, with_host(known, weighing.job, weighing.prediction, style)) + "\n";
  result += machine_line(weighing.job, style);
  if (const StepBand band = step_band(weighing.job); !band.backed)
    result += wrapped(style, "band not backed: " + band.says, 2) + "\n";
  result += "\n";
  std::vector<std::pair<double, TimeTerm>> rows;
  for (std::size_t i = 0; i < kTimeTerms; ++i) {
    const auto term = static_cast<TimeTerm>(i);
    if (time.terms[term] > 0 || time.hidden[term] > 0) rows.emplace_back(time.terms[term], term);
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  for (const auto& [seconds, term] : rows) {
    const double share = seconds / time.step.value();
    result += "  " + padded_right(std::string(name_of(term)), kTermColumns) +
              padded_right(bar(style, share, kBarColumns), kBarColumns) +
              padded_left(print_seconds(Seconds(seconds)), 10) +
              padded_left(fmt::format("{:.0f} %", 100 * share), 7) + "  " +
              note_of(time, term, weighing.job) + "\n";
  }
  Table table({{"what would help"}, {"step", true}, {"gain", true}});
  for (const WhatIf& answer : what_if) {
    const double percent = 100 * answer.gain;
    table.add({"  " + answer.change, print_seconds(answer.step),
               fmt::format("{:.1f} %", std::abs(percent) < 0.05 ? 0.0 : percent)});
  }
  if (budget) result += "\n" + budget_text(*budget, style);
  return without_trailing_blanks(result + "\n" + table.text(style));
}

}  // namespace steelyard
