#include "cli/changed_files.h"

#include <filesystem>

namespace steelyard {
namespace {

bool is_blank(const std::string& line) {
  return line.find_first_not_of(" \t") == std::string::npos;
}

}  // namespace

std::vector<PatchedFile> changed_files(const RunInput& input, const RunEdits& edits) {
  if (input.imported == nullptr && !input.toml) return {};
  Value wanted = input.document;
  std::vector<KeyEdit> changes;
  for (const Suggestion::Edit& edit : edits) {
    if (edit.to.empty()) {
      if (input.imported == nullptr) return {};  // of a run file's text keys are only written over
      remove_path(wanted, edit.key);
      continue;
    }
    changes.push_back(edit_of(edit.key, edit.to, "--apply"));
    lay_over(wanted, {changes.back()});
  }
  const std::string name = source_name_of(input.word);
  if (input.imported == nullptr)
    return {{name, input.text, edited_run_file(input.text, input.document, changes)}};
  Patched patched =
      patch_launch(name, *input.imported, wanted, launch_context_of(input.word, input.given));
  // Of a change that the files say in part only, no part is told.
  if (!patched.problems.empty() || !patched.left_out.empty()) return {};
  return std::move(patched.files);
}

LinesOfChange lines_of_change(const RunInput& input) {
  return [&input](const RunEdits& edits) {
    std::vector<FixLine> lines;
    for (const PatchedFile& file : changed_files(input, edits))
      for (ChangedLine& change : changed_lines(file.before, file.after))
        if (!is_blank(change.before) || !is_blank(change.after))
          lines.push_back({file.name, std::move(change)});
    return lines;
  };
}

std::string path_below(const std::string& folder, const RunInput& input, const std::string& name) {
  namespace fs = std::filesystem;
  fs::path below = fs::path(name).lexically_proximate(
      input.folder.empty() ? fs::path(".") : fs::path(input.folder));
  if (below.empty() || *below.begin() == ".." || below.is_absolute())
    below = fs::path(name).filename();
  if (name == "<stdin>") below = "stdin";
  return (fs::path(folder) / below).generic_string();
}

}  // namespace steelyard
