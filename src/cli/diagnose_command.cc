#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/evidence_file.h"
#include "cli/exit_status.h"
#include "cli/outlet.h"
#include "cli/problems.h"
#include "cli/read_invocation.h"
#include "cli/rewritten.h"
#include "cli/run_input.h"
#include "diagnose/diagnosis.h"
#include "evidence/incident.h"
#include "report/diagnosis_json.h"
#include "report/diagnosis_text.h"
#include "report/prediction_json.h"

namespace steelyard {
namespace {

// The run that the evidence is held against, weighed.
struct AgainstRun {
  RunInput input;
  Value document;
  Weighed weighed;
};

tl::expected<AgainstRun, Diagnostics> weigh_against(const Invocation& invocation,
                                                    const std::string& word) {
  auto input = read_run(word);
  if (!input) return tl::unexpected(input.error());
  AgainstRun run{std::move(*input), {}, {}};
  run.document = run.input.document;
  lay_over(run.document, edits_of(invocation.keys));
  run.weighed = weigh_document(run.document, run.input.folder);
  if (!run.weighed.prediction) return tl::unexpected(run.weighed.problems);
  return run;
}

}  // namespace

int diagnose_command(const Invocation& invocation) {
  if (invocation.words.empty())
    return refuse_words(invocation,
                        "diagnose what: a snapshot, a log, an error text or a folder of them");
  GatheredEvidence gathered = gather_evidence(invocation.words);
  if (gathered.evidence.empty()) {
    if (gathered.problems.empty())
      gathered.problems.push_back(command_line_problem(
          "E115", fmt::format("{} holds no evidence that is read here", invocation.words.front()),
          "evidence is a memory snapshot, a log, an error text, statistics, a trace or a flight "
          "recorder"));
    return refuse(invocation, gathered.problems, "nothing diagnosed");
  }
  Incident incident = join_incident(gathered.evidence);
  DiagnosisQuestion question;
  std::optional<AgainstRun> against;
  std::string not_weighed;
  if (const std::string* word = invocation.value("against")) {
    auto run = weigh_against(invocation, *word);
    if (!run && !run.error().empty() &&
        (run.error()[0].code == "E100" || run.error()[0].code == "E005"))
      return refuse(invocation, run.error(), "nothing diagnosed");
    // A run that is not weighed yet is no reason to say nothing of the evidence.
    if (run)
      against.emplace(std::move(*run));
    else
      not_weighed = fmt::format(
          "{} is not compared: {}", *word,
          run.error().empty() ? std::string("it cannot be weighed") : run.error()[0].message);
  } else {
    for (const std::string& path : gathered.runs) {
      auto run = weigh_against(invocation, path);
      if (!run) continue;
      against.emplace(std::move(*run));
      break;
    }
  }
  question.evidence = std::move(gathered.evidence);
  question.culprits = std::move(incident.culprits);
  if (against) {
    question.job = &*against->weighed.job;
    question.prediction = &*against->weighed.prediction;
    question.run = against->input.name;
    question.rewritten =
        rewritten(against->document, against->input.folder,
                  against->input.tool.empty() ? tool_of(against->document)
                                              : std::string_view(against->input.tool));
  }
  Diagnosis diagnosis = diagnose(question);
  if (!not_weighed.empty()) diagnosis.notes.push_back(not_weighed);
  for (const Diagnostic& problem : gathered.problems) diagnosis.notes.push_back(problem.message);
  if (invocation.json) {
    answer(document_text(json_of(diagnosis)));
  } else {
    const std::string text = diagnosis_text(diagnosis, invocation.style);
    answer(invocation.style.ascii ? plain_characters(text) : text);
  }
  return diagnosis.verdict == Cause::kHealthy ? kDone : kFinding;
}

}  // namespace steelyard
