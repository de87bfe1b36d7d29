#include "cli/export_patch.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/exit_status.h"
#include "cli/outlet.h"
#include "cli/output_file.h"
#include "cli/problems.h"
#include "cli/read_invocation.h"
#include "document/unified_diff.h"
#include "formats/launch/patch.h"

namespace steelyard {
namespace {

// A launch file may leave out what it runs on: the rules between its other keys hold on any device.
Value placed(Value run) {
  if (run.at("cluster.device") == nullptr)
    set_path(run, "cluster.device", Value::string("h100-sxm-80gb"), Place());
  if (run.at("cluster.devices") == nullptr)
    set_path(run, "cluster.devices", Value::integer(1), Place());
  return run;
}

// What is wrong with the run that was not wrong with the file.
Diagnostics new_problems(const RunInput& input, const Value& wanted) {
  const auto job = job_of(placed(wanted), input.folder);
  if (job) return {};
  const auto before = job_of(placed(input.document), input.folder);
  Diagnostics problems;
  for (const Diagnostic& problem : job.error()) {
    const bool is_old =
        !before &&
        std::any_of(before.error().begin(), before.error().end(), [&](const Diagnostic& old) {
          return old.code == problem.code && old.message == problem.message;
        });
    if (!is_old && problem.severity == Severity::kError) problems.push_back(problem);
  }
  return problems;
}

std::vector<const PatchedFile*> changed(const Patched& patched) {
  std::vector<const PatchedFile*> files;
  for (const PatchedFile& file : patched.files)
    if (file.before != file.after) files.push_back(&file);
  return files;
}

std::string diff_of(const Patched& patched) {
  std::string text;
  for (const PatchedFile& file : patched.files)
    text += unified_diff(file.before, file.after, file.name, file.name + " (exported)");
  return text;
}

// The files under their own names, as seen from the folder of the first.
int write_to_folder(const Invocation& invocation, const RunInput& input, const Patched& patched,
                    const std::string& folder) {
  namespace fs = std::filesystem;
  for (const PatchedFile& file : patched.files) {
    fs::path name = fs::path(file.name).lexically_proximate(
        input.folder.empty() ? fs::path(".") : fs::path(input.folder));
    if (name.empty() || *name.begin() == ".." || name.is_absolute())
      name = fs::path(file.name).filename();
    if (file.name == "<stdin>") name = "stdin";
    const fs::path path = fs::path(folder) / name;
    make_folder(path.parent_path().string());
    if (const auto problem = write_file(path.string(), file.after))
      return refuse(invocation, {*problem}, "not all written");
    answer(path.generic_string() + "\n");
  }
  return kDone;
}

int give(const Invocation& invocation, const RunInput& input, const std::string& target,
         const Patched& patched) {
  const auto files = changed(patched);
  if (invocation.json) {
    nlohmann::ordered_json result = {{"schema", "steelyard.export/1"}, {"target", target}};
    for (const PatchedFile& file : patched.files) result["files"][file.name] = file.after;
    result["changed"] = nlohmann::ordered_json::array();
    for (const PatchedFile* file : files) result["changed"].push_back(file->name);
    result["diff"] = diff_of(patched);
    result["losses"] = nlohmann::ordered_json::array();
    for (const std::string& key : patched.left_out)
      result["losses"].push_back({{"key", key}, {"value", ""}, {"reason", "no file says it"}});
    answer(result.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
    return kDone;
  }
  if (invocation.has("diff")) {
    answer(diff_of(patched));
    return kDone;
  }
  if (const std::string* folder = invocation.value("to-folder"))
    return write_to_folder(invocation, input, patched, *folder);
  const std::string* output = invocation.value("output");
  if (files.size() > 1) {
    std::vector<std::string> names;
    names.reserve(files.size());
    for (const PatchedFile* file : files) names.push_back(file->name);
    return refuse(
        invocation,
        {command_line_problem(
            "E616", fmt::format("the change is in several files: {}", fmt::join(names, ", ")),
            "--diff shows them; --to-folder FOLDER writes them")},
        "nothing exported");
  }
  // Never one file's text where another is expected: `export job.sh -o job.sh`.
  if (files.size() == 1 && files.front() != patched.files.data()) {
    const std::string& name = files.front()->name;
    const auto last = [](const std::string& path) {
      return std::filesystem::path(path).filename();
    };
    if (output == nullptr || last(*output) != last(name))
      return refuse(
          invocation,
          {command_line_problem(
              "E616", fmt::format("the change is in {}, which {} names", name, input.word),
              fmt::format("--diff shows it; -o {} writes it there; --to-folder "
                          "FOLDER writes all",
                          name))},
          "nothing exported");
  }
  const PatchedFile& file = files.empty() ? patched.files.front() : *files.front();
  if (output != nullptr && *output != "-") {
    if (const auto problem = write_file(*output, file.after))
      return refuse(invocation, {*problem}, "nothing written");
    return kDone;
  }
  answer_file(file.after);
  return kDone;
}

}  // namespace

bool exports_own_file(const Invocation& invocation, const RunInput& input,
                      const std::string& target) {
  return input.imported != nullptr && !invocation.has("new") && !invocation.has("slurm") &&
         is_own_target(*input.imported, target);
}

int export_own_file(const Invocation& invocation, const RunInput& input, const Value& wanted,
                    const std::string& target) {
  Diagnostics problems = new_problems(input, wanted);
  if (!problems.empty()) return refuse(invocation, problems, "nothing exported");
  const Patched patched = patch_launch(source_name_of(input.word), *input.imported, wanted,
                                       launch_context_of(input.word, input.given));
  if (!patched.problems.empty()) return refuse(invocation, patched.problems, "nothing exported");
  for (const std::string& key : patched.left_out)
    remark(fmt::format("left out: {}: no key of these files says it\n", key));
  for (const std::string& also : patched.also) remark(fmt::format("changed too: {}\n", also));
  return give(invocation, input, target, patched);
}

}  // namespace steelyard
