#include "cli/experiment_folder.h"

#include <fmt/format.h>

#include <filesystem>

#include "cli/changed_files.h"
#include "cli/evidence_file.h"
#include "cli/input_file.h"
#include "cli/output_file.h"
#include "cli/problems.h"
#include "cli/read_invocation.h"
#include "report/experiment_plan_json.h"
#include "world/world.h"

namespace steelyard {
namespace {

constexpr InputKind kPlanFile = {"plan of experiments", std::size_t{4} << 20};

std::string in_folder(const std::string& folder, std::string_view name) {
  return (std::filesystem::path(folder) / name).generic_string();
}

// All files of the changed run: a launch file's folder is no run without those that it names.
std::vector<ExportedFile> files_of_run(const RunInput& run, const RunEdits& edits,
                                       const std::string& folder) {
  std::vector<ExportedFile> files;
  const std::vector<PatchedFile> changed = changed_files(run, edits);
  for (const PatchedFile& file : changed)
    files.push_back({path_below(folder, run, file.name), file.after});
  if (changed.empty()) {
    Value document = run.document;
    for (const Suggestion::Edit& edit : edits)
      lay_over(document, {edit_of(edit.key, edit.to, "--apply")});
    files.push_back({in_folder(folder, "run.toml"), run_file_text(document)});
    return files;
  }
  if (run.imported == nullptr) return files;
  for (const auto& [name, source] : run.imported->sources) {
    const std::string path = path_below(folder, run, name);
    const bool is_written = std::any_of(
        files.begin(), files.end(), [&](const ExportedFile& file) { return file.name == path; });
    // A text that a script writes itself stands in the script.
    if (!is_written && name.find(" in ") == std::string::npos) files.push_back({path, source.text});
  }
  return files;
}

// The plan's own text, where the words name one.
std::optional<std::string> plan_file_of(const std::vector<std::string>& words) {
  if (words.empty() || words.front() == "-") return std::nullopt;
  const bool folder = world().kind_of(words.front()) == PathKind::kFolder;
  if (folder && words.size() > 1) return std::nullopt;
  const std::string path = folder ? in_folder(words.front(), kExperimentPlanFile) : words.front();
  const bool named_so = std::filesystem::path(path).extension() == ".json";
  if (!named_so || world().kind_of(path) != PathKind::kFile) return std::nullopt;
  return path;
}

}  // namespace

tl::expected<std::vector<std::string>, Diagnostics> write_experiments(const std::string& folder,
                                                                      PlannedExperiments plan,
                                                                      const RunInput* run) {
  std::vector<ExportedFile> files = {
      {in_folder(folder, kExperimentPlanFile), experiment_plan_text(plan)}};
  for (std::size_t i = 0; run != nullptr && i < plan.runs.size(); ++i)
    for (ExportedFile& file :
         files_of_run(*run, plan.runs[i].edits, in_folder(folder, std::to_string(i + 1))))
      files.push_back(std::move(file));
  std::vector<std::string> names;
  for (const ExportedFile& file : files) {
    make_folder(std::filesystem::path(file.name).parent_path().string());
    if (const auto problem = write_file(file.name, file.text))
      return tl::unexpected(Diagnostics{*problem});
    names.push_back(file.name);
  }
  return names;
}

std::optional<tl::expected<ExperimentResults, Diagnostics>> read_experiments(
    const std::vector<std::string>& words) {
  const auto path = plan_file_of(words);
  if (!path) return std::nullopt;
  const auto text = read_input(*path, kPlanFile);
  if (!text || !is_experiment_plan(*text)) return std::nullopt;
  auto plan = read_experiment_plan(*text, *path);
  if (!plan) return tl::unexpected(std::move(plan.error()));
  ExperimentResults results{std::move(*plan), {}, {}};
  const std::string beside = std::filesystem::path(*path).parent_path().string();
  if (words.size() > 1 + results.plan.runs.size())
    return tl::unexpected(Diagnostics{command_line_problem(
        "E003",
        fmt::format("{} results for a plan of {} runs", words.size() - 1, results.plan.runs.size()),
        "diagnose experiments.json FIRST SECOND ..., one file or folder for each run")});
  for (std::size_t i = 0; i < results.plan.runs.size(); ++i) {
    const bool named = words.size() > 1;
    const std::string word = named ? (i + 1 < words.size() ? words[i + 1] : "")
                                   : in_folder(beside, std::to_string(i + 1));
    const bool there = !word.empty() && (named || world().kind_of(word) == PathKind::kFolder);
    GatheredEvidence gathered = there ? gather_evidence({word}) : GatheredEvidence();
    results.outcomes.push_back(outcome_of(gathered.evidence));
    for (Diagnostic& problem : gathered.problems) results.problems.push_back(std::move(problem));
  }
  return results;
}

}  // namespace steelyard
