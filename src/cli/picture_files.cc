#include "cli/picture_files.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/outlet.h"
#include "cli/output_file.h"
#include "cli/problems.h"
#include "cli/read_invocation.h"
#include "cli/run_input.h"
#include "picture/memory_bar.h"
#include "report/json_values.h"
#include "report/prediction_json.h"

namespace steelyard {
namespace {

// More passages than this are a grey bar, and take long to draw.
constexpr std::int64_t kMostPassagesDrawn = 20'000;

}  // namespace

double picture_width(const Invocation& invocation) {
  const std::string* width = invocation.value(kPictureWidth);
  return width == nullptr ? Frame{}.width : std::stod(*width);
}

std::optional<int> refuse_pictures(const Invocation& invocation, std::string_view why_not) {
  if (!invocation.has("svg") && !invocation.has("html")) return std::nullopt;
  return refuse(
      invocation,
      {command_line_problem("E624", fmt::format("--svg and --html do not draw {}", why_not),
                            "without them it is printed, or --json")},
      "nothing written");
}

std::optional<int> write_pictures(const Invocation& invocation, int status,
                                  const std::function<std::string(const Frame&)>& svg,
                                  const std::function<Report(const std::string& svg)>& report) {
  const std::string* picture = invocation.value("svg");
  const std::string* page = invocation.value("html");
  if (picture == nullptr && page == nullptr) return std::nullopt;
  const bool picture_is_answer = picture != nullptr && *picture == "-";
  const bool page_is_answer = page != nullptr && *page == "-";
  if (picture_is_answer && page_is_answer)
    return refuse_words(invocation,
                        "--svg - and --html - both want stdout: give one of them a file");
  if (invocation.json && (picture_is_answer || page_is_answer))
    return refuse_words(invocation,
                        "--json and a picture on stdout both want it: give the picture a file");
  const std::string drawn = svg(report_frame("steelyard", picture_width(invocation)));
  if (picture != nullptr) {
    if (drawn.empty())
      return refuse(invocation,
                    {command_line_problem("E624", "--svg: this answer has nothing to draw",
                                          "--html FILE writes it as a page")},
                    "nothing written");
    if (picture_is_answer)
      answer_file(drawn + "\n");
    else if (const auto problem = write_file(*picture, drawn + "\n"))
      return refuse(invocation, {*problem}, "nothing written");
  }
  if (page != nullptr) {
    const std::string text = report_page(report(drawn));
    if (page_is_answer)
      answer_file(text);
    else if (const auto problem = write_file(*page, text))
      return refuse(invocation, {*problem}, "nothing written");
  }
  // On stdout the picture is the answer.
  if (picture_is_answer || page_is_answer) return status;
  return std::nullopt;
}

std::string portable_run(const Value& document, const std::string& folder) {
  Value run = document;
  if (auto model = model_file_of(document, folder)) {
    Place place;
    set_path(run, "model", std::move(*model), place);
  }
  return line_text(json_of(run));
}

std::vector<Derivation> derivations_of(const Weighing& weighing) {
  std::vector<Derivation> derivations;
  for (const BarPart& part : bar_of_peak(weighing.prediction).parts)
    if (Explained explained = explain(weighing.job, part.paint.name); explained.derivation)
      derivations.push_back(std::move(*explained.derivation));
  return derivations;
}

std::string about_run(std::string_view name, const Job& job) {
  return fmt::format("{} on {} x {}, {}, {} tokens a sequence", name,
                     print_count(job.cluster.devices),
                     job.cluster.device ? job.cluster.device->name : "?", name_of(job.engine),
                     print_count(job.training.sequence_length));
}

Report report_of_weighing(const Weighing& weighing, const std::vector<Derivation>& derivations,
                          const Value& document, const std::string& folder, std::string about,
                          double width) {
  std::optional<StepTrace> trace;
  if (weighing.prediction.time && trace_passages(weighing.job) <= kMostPassagesDrawn)
    trace = step_trace(weighing.job);
  Report report = weighing_report(weighing, trace, derivations, width);
  report.about = std::move(about);
  report.run = portable_run(document, folder);
  report.answer =
      document_text(json_of(weighing.job, weighing.prediction, weighing.suggestions, false));
  return report;
}

Style report_text_style(const Invocation& invocation) {
  Style style;
  style.width = 96;
  style.units = invocation.style.units;
  return style;
}

Report report_of_text(const Invocation& invocation, const std::string& text, std::string svg,
                      std::string answer_json) {
  Report report = text_report(std::string(invocation.command->name), text, std::move(svg));
  report.answer = std::move(answer_json);
  return report;
}

}  // namespace steelyard
