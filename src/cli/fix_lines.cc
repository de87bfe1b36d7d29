#include "cli/fix_lines.h"

#include "formats/launch/patch.h"

namespace steelyard {
namespace {

std::vector<FixLine> lines_between(const std::string& file, std::string_view before,
                                   std::string_view after) {
  std::vector<FixLine> lines;
  const auto is_blank = [](const std::string& line) {
    return line.find_first_not_of(" \t") == std::string::npos;
  };
  for (ChangedLine& change : changed_lines(before, after))
    if (!is_blank(change.before) || !is_blank(change.after))
      lines.push_back({file, std::move(change)});
  return lines;
}

std::vector<FixLine> lines_of_launch_files(const RunInput& input, const Value& wanted) {
  const Patched patched = patch_launch(source_name_of(input.word), *input.imported, wanted,
                                       launch_context_of(input.word, input.given));
  // Of a change that the files say in part only, no part is told.
  if (!patched.problems.empty() || !patched.left_out.empty()) return {};
  std::vector<FixLine> lines;
  for (const PatchedFile& file : patched.files)
    for (FixLine& line : lines_between(file.name, file.before, file.after))
      lines.push_back(std::move(line));
  return lines;
}

}  // namespace

LinesOfChange lines_of_change(const RunInput& input) {
  if (input.imported == nullptr && !input.toml) return {};
  return [&input](const RunEdits& edits) -> std::vector<FixLine> {
    Value wanted = input.document;
    std::vector<KeyEdit> changes;
    for (const Suggestion::Edit& edit : edits) {
      if (edit.to.empty()) {
        if (input.imported == nullptr) return {};  // a run file's text is only written over
        remove_path(wanted, edit.key);
        continue;
      }
      changes.push_back(edit_of(edit.key, edit.to, "--apply"));
      lay_over(wanted, {changes.back()});
    }
    if (input.imported != nullptr) return lines_of_launch_files(input, wanted);
    return lines_between(input.word == "-" ? "<stdin>" : input.word, input.text,
                         edited_run_file(input.text, input.document, changes));
  };
}

}  // namespace steelyard
