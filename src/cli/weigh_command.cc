#include "cli/weigh_command.h"

#include <fmt/format.h>

#include <charconv>
#include <nlohmann/json.hpp>

#include "cli/calibrated.h"
#include "cli/exit_status.h"
#include "cli/outlet.h"
#include "cli/output_file.h"
#include "cli/picture_files.h"
#include "cli/problems.h"
#include "cli/read_invocation.h"
#include "cli/rewritten.h"
#include "cli/run_input.h"
#include "cli/used_stacks.h"
#include "cli/written_paths.h"
#include "job/keys.h"
#include "picture/memory_bar.h"
#include "predict/host_room.h"
#include "report/applied.h"
#include "report/budget_text.h"
#include "report/phases.h"
#include "report/prediction_json.h"
#include "report/time_table.h"
#include "report/weighing.h"

namespace steelyard {
namespace {

// What was asked, and what was answered: --apply makes a second one of the first.
struct Answered {
  Value document;
  Weighed weighed;
  std::vector<Suggestion> suggestions;
  // What a tool does by itself is assumed of its runs.
  void take(const std::vector<Assumption>& taken) {
    if (!weighed.prediction) return;
    auto& assumptions = weighed.prediction->assumptions;
    assumptions.insert(assumptions.begin(), taken.begin(), taken.end());
  }
};

// What was not read of a launch file stands before what its run itself is warned of.
void warn_first(Prediction& prediction, const Diagnostics& warnings) {
  std::vector<std::string> texts;
  for (const Diagnostic& warning : warnings)
    texts.push_back(warning.more > 0 ? fmt::format("and {} more", warning.more) : warning.message);
  prediction.warnings.insert(prediction.warnings.begin(), texts.begin(), texts.end());
}

Answered answered(Value document, const RunInput& input, bool suggestions_wanted) {
  Answered result;
  result.weighed = weigh_document(document, input.folder);
  result.document = std::move(document);
  if (result.weighed.prediction) warn_first(*result.weighed.prediction, warnings_of_import(input));
  if (suggestions_wanted && result.weighed.prediction)
    result.suggestions = suggest(
        *result.weighed.job, *result.weighed.prediction,
        rewritten(result.document, input.folder,
                  input.tool.empty() ? tool_of(result.document) : std::string_view(input.tool)));
  return result;
}

// A run that dies at start is a finding, however little it needs.
int status_of(const Invocation& invocation, const Job& job, const Prediction& prediction) {
  if (prediction.verdict == Verdict::kDoesNotFit || job.dies_at_start) return kFinding;
  const std::string* fail_on = invocation.value("fail-on");
  return prediction.verdict == Verdict::kTight && fail_on != nullptr && *fail_on == "tight"
             ? kFinding
             : kDone;
}

std::optional<std::size_t> number_in(const std::string& text) {
  std::size_t number = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (fault != std::errc() || end != text.data() + text.size() || number == 0) return std::nullopt;
  return number;
}

std::string in_style(const Style& style, const std::string& text) {
  return style.ascii ? plain_characters(text) : text;
}

std::string run_text(const RunInput& input, const std::vector<KeyEdit>& edits,
                     const Value& document) {
  return input.toml ? edited_run_file(input.text, input.document, edits) : run_file_text(document);
}

}  // namespace

// Of memory: a time has no events to replay.
std::string differences(Prediction spans, const Prediction& replayed) {
  const Job none;
  spans.time.reset();
  const nlohmann::ordered_json a = json_of(none, spans, {}, false);
  const nlohmann::ordered_json b = json_of(none, replayed, {}, false);
  std::string text;
  for (const auto& step : nlohmann::ordered_json::diff(a, b)) {
    const auto path = nlohmann::ordered_json::json_pointer(step.at("path").get<std::string>());
    const std::string before = a.contains(path) ? a.at(path).dump() : "absent";
    text += fmt::format("{}: spans {}, replay {}\n", path.to_string(), before,
                        step.contains("value") ? step.at("value").dump() : "absent");
  }
  return text;
}

int weigh_command(const Invocation& invocation) {
  const auto calibrated = calibrated_rates(invocation);
  if (!calibrated) return refuse(invocation, calibrated.error(), "nothing weighed");
  if (const std::string* jobs = invocation.value("jobs")) {
    if (const auto status = refuse_pictures(invocation, "--jobs")) return *status;
    if (!invocation.words.empty())
      return refuse_words(invocation, "--jobs brings its own run files");
    return weigh_jobs(invocation, *jobs);
  }
  if (invocation.words.empty())
    return refuse_words(invocation, "weigh what: a run file or a model");
  if (invocation.words.size() > 1)
    return refuse_words(
        invocation,
        fmt::format("weigh takes one run file or model, not also \"{}\"", invocation.words[1]));
  const auto input = read_run(invocation.words.front(), invocation);
  if (!input) return refuse(invocation, input.error(), "nothing weighed");

  const auto used = used_stacks(invocation, false);
  if (!used) return refuse(invocation, used.error(), "nothing weighed");
  std::vector<KeyEdit> edits = edits_of(used->keys);
  Value document = input->document;
  lay_over(document, edits);
  std::vector<Assumption> taken;
  if (!used->stacks.empty()) {
    use_canonical_keys(document);
    auto defaults = take_defaults_of(*used, input->folder, document);
    if (!defaults) return refuse(invocation, defaults.error(), "nothing weighed");
    taken = std::move(*defaults);
    for (const Assumption& one : taken) edits.push_back({one.key, *document.at(one.key)});
  }
  const bool brief = invocation.has("brief");
  // A report has the ways out, however quiet the terminal is asked to be.
  const bool suggestions_wanted = !brief && !invocation.has("no-suggestions") &&
                                  (!invocation.has("quiet") || invocation.has("html"));
  Answered asked =
      answered(std::move(document), *input, suggestions_wanted || invocation.has("apply"));
  asked.take(taken);
  if (!asked.weighed.prediction)
    return refuse(invocation, asked.weighed.problems, "nothing weighed");

  std::optional<Answered> before;
  std::vector<Suggestion> applied;
  for (std::size_t i = 0; i < invocation.count("apply"); ++i) {
    const std::string& text = invocation.flags.find("apply")->second[i];
    const auto number = number_in(text);
    if (!number || *number > asked.suggestions.size())
      return refuse(invocation,
                    {command_line_problem(
                        "E005", fmt::format("--apply {}: there is no such suggestion", text),
                        asked.suggestions.empty() ? "nothing is suggested for this run"
                                                  : fmt::format("suggestions are numbered 1 to {}",
                                                                asked.suggestions.size()))},
                    "nothing applied");
    const Suggestion chosen = asked.suggestions[*number - 1];
    Value changed = asked.document;
    for (const Suggestion::Edit& edit : chosen.edits) {
      edits.push_back(edit_of(edit.key, edit.to, "--apply"));
      lay_over(changed, {edits.back()});
    }
    Answered next = answered(std::move(changed), *input, true);
    next.take(taken);
    if (!next.weighed.prediction)
      return refuse(invocation, next.weighed.problems, "nothing applied");
    if (!before) before = std::move(asked);
    asked = std::move(next);
    applied.push_back(chosen);
  }

  const Job& job = *asked.weighed.job;
  const Prediction& prediction = *asked.weighed.prediction;
  if (invocation.has("replay")) {
    // The judge knows no clock.
    Prediction bytes = prediction;
    bytes.time.reset();
    if (const std::string difference = differences(bytes, predict_by_replay(job));
        !difference.empty()) {
      remark("internal error: the replay of every event disagrees\n" + difference);
      return kInternal;
    }
  }
  if (const std::string* file = invocation.value("write")) {
    for (const KeyEdit& moved : paths_for_file(asked.document, input->folder, *file)) {
      edits.push_back(moved);
      lay_over(asked.document, {moved});
    }
    const std::string text = run_text(*input, edits, asked.document);
    if (*file == "-") {
      answer_file(text);
      return status_of(invocation, job, prediction);
    }
    if (const auto problem = write_file(*file, text))
      return refuse(invocation, {*problem}, "nothing written");
  }

  if (const auto status = write_snapshot(invocation, job, prediction)) return *status;
  if (const auto status = write_trace(invocation, job)) return *status;
  const auto drawn = write_pictures(
      invocation, status_of(invocation, job, prediction),
      [&](const Frame& frame) { return memory_bar_svg(prediction, frame); },
      [&](const std::string&) {
        const Weighing shown{
            job,  prediction, peak_moment(job, peak_rank_index(prediction)), asked.suggestions,
            true, ""};
        return report_of_weighing(shown, derivations_of(shown), asked.document, input->folder,
                                  about_run(input->name, job), picture_width(invocation));
      });
  if (drawn) return *drawn;
  const auto budget = budget_asked(invocation, job, prediction);
  if (!budget) return refuse(invocation, budget.error(), "nothing weighed");

  warn(invocation, warnings_of_import(*input));
  warn(invocation, job.warnings);
  if (invocation.json || brief) {
    auto json = json_of(job, prediction, asked.suggestions, brief);
    if (*budget) json["time"]["budget"] = json_of(**budget);
    answer(brief ? line_text(json) : document_text(json));
    return status_of(invocation, job, prediction);
  }
  const Style& style = invocation.style;
  if (invocation.has("quiet")) {
    // One line whatever the screen: scripts read it.
    Style unbroken = style;
    unbroken.width = 400;
    answer(in_style(style, verdict_line(prediction, unbroken)));
    return status_of(invocation, job, prediction);
  }
  Weighing weighing{job,
                    prediction,
                    peak_moment(job, peak_rank_index(prediction)),
                    asked.suggestions,
                    invocation.has("all"),
                    arguments_of(invocation)};
  std::string text;
  if (before) {
    text = applied_text({"before", *before->weighed.job, *before->weighed.prediction},
                        {"after", job, prediction}, applied, style);
  } else {
    if (invocation.has("time") && prediction.time)
      text = time_text(weighing, what_would_help(job), *budget, style);
    else
      text =
          invocation.has("phases") ? phases_text(weighing, style) : weighing_text(weighing, style);
  }
  if (invocation.has("verbose")) text += details_text(weighing, style);
  answer(in_style(style, text));
  if (const std::string lacks = host_sentence(job, prediction.host_of_node); !lacks.empty())
    remark(
        fmt::format("{}: {}\n", painted(invocation.error_style, Ink::kWarning, "warning"), lacks));
  if (prediction.verdict == Verdict::kTight && prediction.peak.high > prediction.usable)
    remark(fmt::format("{}: tight, a longer sequence or another driver may not fit\n",
                       painted(invocation.error_style, Ink::kWarning, "warning")));
  return status_of(invocation, job, prediction);
}

}  // namespace steelyard
