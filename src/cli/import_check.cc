#include "cli/import_check.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/exit_status.h"
#include "cli/outlet.h"
#include "cli/problems.h"
#include "cli/read_invocation.h"
#include "cli/run_input.h"
#include "document/printable.h"
#include "report/json_values.h"
#include "report/prediction_json.h"
#include "world/world.h"

namespace steelyard {
namespace {

namespace fs = std::filesystem;

// A folder of more is no folder of configurations.
constexpr std::size_t kMostFiles = 20'000;

bool is_candidate(const fs::path& path) {
  static constexpr std::array<std::string_view, 12> kEndings = {
      ".yaml", ".yml",    ".json", ".toml", ".sh", ".slurm",
      ".bash", ".sbatch", ".job",  ".args", ".py", ".ipynb"};
  const std::string ending = path.extension().string();
  return std::find(kEndings.begin(), kEndings.end(), ending) != kEndings.end();
}

// Every file below a folder, in order; links and what begins with a dot are passed over.
void gather(const fs::path& folder, std::vector<std::string>& files) {
  std::error_code failed;
  std::vector<fs::path> folders, here;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, failed)) {
    if (entry.path().filename().string().starts_with(".") || entry.is_symlink(failed)) continue;
    if (entry.is_directory(failed))
      folders.push_back(entry.path());
    else if (entry.is_regular_file(failed) && is_candidate(entry.path()))
      here.push_back(entry.path());
  }
  std::sort(here.begin(), here.end());
  std::sort(folders.begin(), folders.end());
  for (const fs::path& path : here)
    if (files.size() < kMostFiles) files.push_back(path.string());
  for (const fs::path& path : folders) gather(path, files);
}

struct CheckedFile {
  std::string file;
  std::string read_as, model, devices;
  std::vector<std::string> not_said, not_read;
  Diagnostics refused;  // why nothing was imported
  bool is_whole() const { return refused.empty() && not_read.empty(); }
};

std::string model_text(const Value& run) {
  const Value* model = run.find("model");
  if (model == nullptr) return "";
  return model->is_string() ? model->as_string() : "a table of sizes";
}

// Nothing: the file launches nothing.
std::optional<CheckedFile> check_file(const Invocation& invocation, const std::string& file) {
  CheckedFile checked{file, {}, {}, {}, {}, {}, {}};
  const auto text = configuration_text(file);
  if (!text) {
    // A script or a file of another kind is nobody's configuration; one that cannot be opened is a finding.
    if (text.error().front().code != "E100" && text.error().front().code != "E103")
      return std::nullopt;
    checked.refused = text.error();
    return checked;
  }
  Imported imported = import_file(file, *text);
  lay_over(imported.run, edits_of(invocation.keys));
  if (imported.failed()) {
    for (const Diagnostic& problem : imported.problems)
      if (problem.severity == Severity::kError) checked.refused.push_back(problem);
    // Neither a launch configuration nor a script that launches one.
    if (checked.refused.front().code == "E604" && imported.formats.empty()) return std::nullopt;
    if (!is_launch_file(*text, file)) return std::nullopt;
    return checked;
  }
  checked.read_as = fmt::format("{}", fmt::join(imported.formats, ", "));
  checked.model = model_text(imported.run);
  if (const Value* devices = imported.run.at("cluster.devices"))
    checked.devices = word_of(*devices);
  for (const Unsaid& unsaid : imported.unsaid)
    if (unsaid.taken.empty() && imported.run.at(unsaid.key) == nullptr)
      checked.not_said.push_back(unsaid.key);
  checked.not_read = imported.unread;
  if (const Value* unweighed = imported.run.at("training.unweighed");
      unweighed != nullptr && unweighed->is_array())
    for (const Value& one : unweighed->items()) {
      const std::string said = word_of(one);
      checked.not_read.push_back(said.substr(0, said.find(':')));
    }
  return checked;
}

std::string line_of(const CheckedFile& checked, std::size_t width) {
  std::string line = fmt::format("{:<{}}  ", printable(checked.file), width);
  if (!checked.refused.empty()) {
    const Diagnostic& first = checked.refused.front();
    line += "refused: " + printable(first.message);
    if (first.place.line > 0) line += fmt::format(" (line {})", first.place.line);
    if (checked.refused.size() > 1)
      line += fmt::format(", and {} more", checked.refused.size() - 1);
    return line + "\n";
  }
  line += printable(checked.read_as);
  if (!checked.model.empty()) line += "; " + printable(checked.model);
  if (!checked.devices.empty()) line += "; " + printable(checked.devices) + " devices";
  const auto list = [&](std::string_view title, const std::vector<std::string>& names) {
    if (names.empty()) return;
    line += fmt::format("; {}: {}", title, printable(fmt::format("{}", fmt::join(names, ", "))));
  };
  list("not said", checked.not_said);
  list("NOT READ", checked.not_read);
  return line + "\n";
}

nlohmann::ordered_json row_of(const CheckedFile& checked) {
  nlohmann::ordered_json row = {{"file", checked.file}};
  if (!checked.refused.empty()) {
    row["refused"] = json_of(checked.refused)["problems"];
    return row;
  }
  row["formats"] = checked.read_as;
  row["model"] = checked.model;
  row["devices"] = checked.devices;
  row["unsaid"] = checked.not_said;
  row["not_read"] = checked.not_read;
  return row;
}

}  // namespace

int import_check(const Invocation& invocation) {
  if (invocation.words.empty())
    return refuse_words(invocation, "import --check what: folders or launch configurations");
  std::vector<std::string> files;
  for (const std::string& word : invocation.words) {
    const PathKind kind = world().kind_of(word);
    if (world().has_machine() && (kind == PathKind::kFolder || kind == PathKind::kEmptyFolder))
      gather(word, files);
    else
      files.push_back(word);
  }
  std::vector<CheckedFile> all;
  std::size_t others = 0, unread = 0, refused = 0;
  for (const std::string& file : files) {
    auto checked = check_file(invocation, file);
    if (!checked) {
      ++others;
      continue;
    }
    unread += checked->not_read.empty() ? 0 : 1;
    refused += checked->refused.empty() ? 0 : 1;
    all.push_back(std::move(*checked));
  }
  const bool whole = unread + refused == 0;
  if (invocation.json) {
    for (const CheckedFile& one : all) answer(line_text(row_of(one)));
    return whole ? kDone : kFinding;
  }
  std::size_t width = 0;
  for (const CheckedFile& one : all)
    width = std::max(width, std::min<std::size_t>(one.file.size(), 60));
  std::string text;
  for (const CheckedFile& one : all)
    if (!invocation.has("quiet") || !one.is_whole()) text += line_of(one, width);
  text += fmt::format(
      "{}{} launch file{}: {} read whole, {} with keys that may change memory and were not read, "
      "{} "
      "refused\n",
      text.empty() ? "" : "\n", all.size(), all.size() == 1 ? "" : "s",
      all.size() - unread - refused, unread, refused);
  if (others > 0) text += fmt::format("{} other files launch nothing\n", others);
  if (files.size() >= kMostFiles)
    text += fmt::format("the first {} files alone were looked at\n", kMostFiles);
  answer(text);
  return whole ? kDone : kFinding;
}

}  // namespace steelyard
