#include <fmt/format.h>

#include <string>

#include "cli/command.h"
#include "cli/exit_status.h"
#include "cli/input_file.h"
#include "cli/outlet.h"
#include "cli/output_file.h"
#include "cli/problems.h"
#include "cli/read_invocation.h"
#include "cost/calibrate.h"
#include "document/read.h"
#include "job/read.h"

namespace steelyard {
namespace {

// Each is predicted again for every constant that is tried.
constexpr std::size_t kMostSteps = 10'000;

// {"run": {...}, "step_seconds": 1.25}, one a line.
tl::expected<MeasuredStep, Diagnostics> step_of(std::string_view line, const std::string& place) {
  tl::expected<Value, Diagnostics> document = read_json(line, place);
  if (!document) return tl::unexpected(std::move(document.error()));
  const Value* run = document->at("run");
  const Value* seconds = document->at("step_seconds");
  if (run == nullptr || !run->is_table() || seconds == nullptr || !seconds->is_number() ||
      !(seconds->as_number() > 0)) {
    Diagnostic problem;
    problem.code = "E110";
    problem.message = fmt::format("{}: no measured step", place);
    problem.help = "a line is {\"run\": {...}, \"step_seconds\": 1.25}";
    return tl::unexpected(Diagnostics{problem});
  }
  const ReadJob job = read_job(*run);
  if (!job) return tl::unexpected(job.error());
  return MeasuredStep{std::make_shared<const Job>(*job), seconds->as_number()};
}

}  // namespace

int calibrate_command(const Invocation& invocation) {
  if (invocation.words.size() != 1)
    return refuse(invocation,
                  {command_line_problem("E001", "calibrate from what: a file of measured steps",
                                        "steelyard calibrate steps.jsonl --output rates.json")},
                  "nothing calibrated");
  const std::string& file = invocation.words.front();
  std::vector<MeasuredStep> steps;
  InputLines lines(file);
  while (lines.next()) {
    const std::string place = fmt::format("{}:{}", file, lines.number());
    if (steps.size() == kMostSteps)
      return refuse(invocation,
                    {command_line_problem(
                        "E103", fmt::format("{}: more than {} measured steps", place, kMostSteps))},
                    "nothing calibrated");
    auto step = step_of(lines.line(), place);
    if (!step) return refuse(invocation, step.error(), "nothing calibrated");
    steps.push_back(std::move(*step));
  }
  if (lines.problem()) return refuse(invocation, {*lines.problem()}, "nothing calibrated");
  const auto found = calibrate(steps);
  if (!found)
    return refuse(invocation,
                  {command_line_problem("E110", fmt::format("{}: {}", file, found.error()))},
                  "nothing calibrated");
  std::string summary =
      fmt::format("{} measured steps: error {:.1f} % before, {:.1f} % after, {:.1f} % held out",
                  steps.size(), found->error_before, found->error_after, found->error_held_out);
  const std::string* output = invocation.value("output");
  if (output != nullptr) {
    const std::string rates = rates_text(found->rates, [&](std::string_view) { return summary; });
    if (const auto problem = write_file(*output, rates))
      return refuse(invocation, {*problem}, "nothing written");
  }
  std::string table = summary + "\n";
  for (const Calibration::Moved& moved : found->moved)
    table += moved.name == "host" ? fmt::format("  {:<10} {:>7.1f} us -> {:.1f} us\n", moved.name,
                                                moved.before * 1e6, moved.after * 1e6)
                                  : fmt::format("  {:<10} {:>7.3f} -> {:.3f}\n", moved.name,
                                                moved.before, moved.after);
  if (found->moved.empty()) table += "  the shipped constants stay: no other predicts better\n";
  answer(table);
  return kDone;
}

}  // namespace steelyard
