#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/exit_status.h"
#include "cli/import_check.h"
#include "cli/outlet.h"
#include "cli/output_file.h"
#include "cli/problems.h"
#include "cli/read_invocation.h"
#include "cli/run_input.h"
#include "cli/written_paths.h"
#include "formats/launch/launch.h"
#include "report/json_values.h"
#include "report/prediction_json.h"
#include "report/run_file_text.h"

namespace steelyard {
namespace {

nlohmann::ordered_json import_document(const Imported& imported) {
  nlohmann::ordered_json document = {{"schema", "steelyard.import/1"},
                                     {"formats", imported.formats}};
  document["run"] = json_of(imported.run);
  auto& origins = document["origins"] = nlohmann::ordered_json::object();
  const auto origin = [&](const std::string& key, const Value& value) {
    const Place place = value.place();
    origins[key] = {{"source", place.source}, {"line", place.line}};
  };
  for (const Value::Member& section : imported.run.members()) {
    if (section.key == "carried") continue;
    if (section.value.is_table() && section.key != "model")
      for (const Value::Member& member : section.value.members())
        origin(section.key + "." + member.key, member.value);
    else
      origin(section.key, section.value);
  }
  const auto list = [&](const char* name, const std::vector<Unsaid>& values) {
    auto& items = document[name] = nlohmann::ordered_json::array();
    for (const Unsaid& one : values)
      items.push_back({{"key", one.key},
                       {"taken", one.taken.empty() ? nlohmann::ordered_json()
                                                   : nlohmann::ordered_json(one.taken)},
                       {"why", one.why}});
  };
  list("unsaid", imported.unsaid);
  list("taken", imported.taken);
  auto& warnings = document["warnings"] = nlohmann::ordered_json::array();
  for (const Diagnostic& problem : imported.problems) {
    if (problem.more > 0) {
      document["more_warnings"] = problem.more;
      continue;
    }
    warnings.push_back(
        {{"message", problem.message}, {"label", problem.label}, {"line", problem.place.line}});
  }
  return document;
}

// What flags say is said; what a job takes beside that is told too, where there is enough for a job.
void complete(Imported& imported, const std::string& folder) {
  std::erase_if(imported.unsaid, [&](const Unsaid& one) {
    return one.taken.empty() && imported.run.at(one.key) != nullptr;
  });
  const auto job = job_of(imported.run, folder);
  if (!job) return;
  for (const Assumption& assumption : job->assumptions)
    if (imported.run.at(assumption.key) == nullptr)
      imported.taken.push_back({assumption.key, assumption.value, assumption.reason});
}

}  // namespace

int import_command(const Invocation& invocation) {
  if (invocation.has("check")) return import_check(invocation);
  if (invocation.words.size() != 1)
    return refuse_words(invocation, "import what: one launch configuration");
  const std::string& word = invocation.words.front();
  const auto text = configuration_text(word);
  if (!text) return refuse(invocation, text.error(), "nothing imported");
  Imported imported = import_file(word, *text);
  lay_over(imported.run, edits_of(invocation.keys));
  if (imported.failed()) return refuse(invocation, imported.problems, "nothing imported");
  const std::string folder = launch_context_of(word).folder;
  complete(imported, folder);
  if (invocation.json) {
    answer(document_text(import_document(imported)));
    return kDone;
  }
  warn(invocation, imported.problems);
  if (const std::string* file = invocation.value("write")) {
    Value moved = imported.run;
    lay_over(moved, paths_for_file(moved, folder, *file));
    const std::string run = run_file_text(moved);
    if (*file == "-") {
      answer_file(run);
      return kDone;
    }
    if (const auto problem = write_file(*file, run))
      return refuse(invocation, {*problem}, "nothing written");
  }
  const std::string report = import_report(imported);
  answer(invocation.has("quiet") ? report.substr(0, report.find('\n') + 1) : report);
  return kDone;
}

}  // namespace steelyard
