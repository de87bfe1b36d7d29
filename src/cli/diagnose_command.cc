#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/against_run.h"
#include "cli/command.h"
#include "cli/evidence_file.h"
#include "cli/exit_status.h"
#include "cli/experiment_folder.h"
#include "cli/follow_log.h"
#include "cli/outlet.h"
#include "cli/picture_files.h"
#include "cli/problems.h"
#include "cli/read_invocation.h"
#include "diagnose/diagnosis.h"
#include "diagnose/growth_watch.h"
#include "evidence/incident.h"
#include "picture/answers.h"
#include "report/diagnosis_json.h"
#include "report/diagnosis_text.h"
#include "report/prediction_json.h"

namespace steelyard {
namespace {

// The run that --against names, or one that lies beside the evidence.
struct FoundRun {
  std::optional<AgainstRun> run;
  std::string why_not;   // of one that is named and cannot be weighed
  Diagnostics problems;  // of one that is named and cannot be read
};

FoundRun find_run(const Invocation& invocation, const std::vector<std::string>& beside) {
  FoundRun found;
  const std::string* word = invocation.value("against");
  if (word == nullptr) {
    for (const std::string& path : beside) {
      auto run = weigh_against(invocation, path);
      if (!run) continue;
      found.run.emplace(std::move(*run));
      break;
    }
    return found;
  }
  auto run = weigh_against(invocation, *word);
  // A run that is not weighed yet is no reason to say nothing of the evidence.
  if (run)
    found.run.emplace(std::move(*run));
  else if (!run.error().empty() && (run.error()[0].code == "E100" || run.error()[0].code == "E005"))
    found.problems = std::move(run.error());
  else
    found.why_not = fmt::format(
        "{} is not compared: {}", *word,
        run.error().empty() ? std::string("it cannot be weighed") : run.error()[0].message);
  return found;
}

int print_diagnosis(const Invocation& invocation, const Diagnosis& diagnosis) {
  const auto drawn = write_pictures(
      invocation, diagnosis.verdict == Cause::kHealthy ? kDone : kFinding,
      [&](const Frame& frame) { return diagnosis_svg(diagnosis, frame); },
      [&](const std::string& svg) {
        return report_of_text(invocation, diagnosis_text(diagnosis, report_text_style(invocation)),
                              svg, document_text(json_of(diagnosis)));
      });
  if (drawn) return *drawn;
  if (invocation.json) {
    answer(document_text(json_of(diagnosis)));
  } else {
    const std::string text = invocation.has("plan-experiment")
                                 ? experiments_text(diagnosis, invocation.style)
                                 : diagnosis_text(diagnosis, invocation.style);
    answer(invocation.style.ascii ? plain_characters(text) : text);
  }
  return diagnosis.verdict == Cause::kHealthy ? kDone : kFinding;
}

// The plan and its changed runs as files, each named.
int write_plan(const Invocation& invocation, const Diagnosis& diagnosis, const FoundRun& found,
               const std::string& folder) {
  if (diagnosis.experiments.empty())
    return refuse(invocation,
                  {command_line_problem("E003", "no experiment decides here: nothing is written",
                                        found.run ? "diagnose --plan-experiment says why"
                                                  : "--against RUN names the run that is changed")},
                  "nothing written");
  PlannedExperiments plan = planned_experiments(diagnosis);
  for (const Evidence& one : diagnosis.evidence) plan.evidence.push_back(one.file);
  const auto written =
      write_experiments(folder, std::move(plan), found.run ? &found.run->input : nullptr);
  if (!written) return refuse(invocation, written.error(), "not all written");
  for (const std::string& name : *written) answer(name + "\n");
  return kDone;
}

// What came of planned runs.
int decide_by_results(const Invocation& invocation, ExperimentResults results) {
  const FoundRun found = find_run(invocation, {});
  if (!found.problems.empty()) return refuse(invocation, found.problems, "nothing diagnosed");
  Diagnosis diagnosis = decided_by(results.plan, results.outcomes);
  DiagnosisQuestion question;
  if (found.run) hold_against(question, *found.run);
  add_fixes(question, diagnosis);
  if (!found.why_not.empty()) diagnosis.notes.push_back(found.why_not);
  for (const Diagnostic& problem : results.problems) diagnosis.notes.push_back(problem.message);
  return print_diagnosis(invocation, diagnosis);
}

int answer_diagnosis(const Invocation& invocation, GatheredEvidence gathered,
                     const FoundRun& found) {
  join_incident(gathered.evidence);
  DiagnosisQuestion question;
  question.evidence = std::move(gathered.evidence);
  if (found.run) hold_against(question, *found.run);
  Diagnosis diagnosis = diagnose(question);
  if (!found.why_not.empty()) diagnosis.notes.push_back(found.why_not);
  for (const Diagnostic& problem : gathered.problems) diagnosis.notes.push_back(problem.message);
  if (const std::string* folder = invocation.value("to-folder"))
    return write_plan(invocation, diagnosis, found, *folder);
  return print_diagnosis(invocation, diagnosis);
}

// Warnings as the lines come, then the verdict. With --json stdout has one document, so that they go to stderr.
int follow(const Invocation& invocation) {
  if (invocation.words.size() != 1)
    return refuse_words(invocation, "diagnose --follow takes one log, or - for a pipe");
  const FoundRun found = find_run(invocation, {});
  if (!found.problems.empty()) return refuse(invocation, found.problems, "nothing diagnosed");
  GrowthWatch watch(found.run ? &*found.run->weighed.prediction : nullptr);
  auto evidence = follow_log(invocation.words[0], [&](const Evidence& so_far) {
    for (const std::string& warning : watch.look(so_far)) {
      const std::string line = fmt::format("warning: {}\n", warning);
      if (invocation.json) {
        remark(line);
      } else {
        answer(line);
        flush_answer();
      }
    }
  });
  if (!evidence) return refuse(invocation, {evidence.error()}, "nothing diagnosed");
  GatheredEvidence gathered;
  gathered.evidence.push_back(std::move(*evidence));
  return answer_diagnosis(invocation, std::move(gathered), found);
}

}  // namespace

int diagnose_command(const Invocation& invocation) {
  if (invocation.words.empty())
    return refuse_words(invocation,
                        "diagnose what: a snapshot, a log, an error text or a folder of them");
  for (const char* other : {"follow", "plan-experiment"})
    if (invocation.has(other))
      if (const auto status = refuse_pictures(invocation, fmt::format("diagnose --{}", other)))
        return *status;
  if (invocation.has("to-folder") && !invocation.has("plan-experiment"))
    return refuse_words(invocation, "--to-folder is for the runs of --plan-experiment");
  if (invocation.has("follow")) return follow(invocation);
  if (!invocation.has("plan-experiment"))
    if (auto results = read_experiments(invocation.words)) {
      if (!*results) return refuse(invocation, results->error(), "nothing diagnosed");
      return decide_by_results(invocation, std::move(**results));
    }
  GatheredEvidence gathered = gather_evidence(invocation.words);
  if (gathered.evidence.empty()) {
    if (gathered.problems.empty())
      gathered.problems.push_back(command_line_problem(
          "E115", fmt::format("{} holds no evidence that is read here", invocation.words.front()),
          "evidence is a memory snapshot, a log, an error text, statistics, a trace or a flight "
          "recorder"));
    return refuse(invocation, gathered.problems, "nothing diagnosed");
  }
  const FoundRun found = find_run(invocation, gathered.runs);
  if (!found.problems.empty()) return refuse(invocation, found.problems, "nothing diagnosed");
  return answer_diagnosis(invocation, std::move(gathered), found);
}

}  // namespace steelyard
