// What a command inside of a word prints: $(basename $FILE), `pwd`.
#include "formats/launch/shell_reader.h"

namespace steelyard {

// $(command): what the few print that are followed, and the folder of the script.
void ShellReader::command_output(std::vector<Letters>& words, ShellSpan inside, bool quoted,
                                 bool whole) {
  constexpr std::size_t kLongestCommand = 4096;
  const std::string_view text = inside.of(text_);
  if (text.size() <= kLongestCommand && commands_ < 15'000) {
    const std::size_t first = std::min(text.find_first_not_of(" \n\t"), text.size());
    const std::string_view name = text.substr(first, text.find_first_of(" \n\t<;&", first) - first);
    if (name == "echo" || name == "cat" || name == "printf" || name == "sed" ||
        name == "envsubst" || name == "basename" || name == "expr" || name == "seq" ||
        prints_folder(name)) {
      if (const Output output = output_of(inside)) return spread(words, *output, quoted || whole);
    }
    const auto has = [&](std::string_view word) {
      return text.find(word) != std::string_view::npos;
    };
    if ((has("dirname") || has("readlink") || has("realpath")) &&
        (has("$0") || has("BASH_SOURCE"))) {
      // Files are looked for from there.
      words.back().add('.', place(inside.from), true);
      return;
    }
  }
  hole(words, "command", inside.from);
}

// What a command or a pipeline of a few commands prints, without its last line ends.
ShellReader::Output ShellReader::output_of(ShellSpan inside) {
  using Joint = ShellStatement::Joint;
  const std::string_view written = inside.of(text_);
  Letters letters;
  for (std::size_t i = 0; i < written.size(); ++i)
    letters.add(written[i], place(inside.from + i), true);
  Text& script = add_text(letters);
  script.tree = parse_shell(script.text);
  const Text* before = now_;
  const std::string_view limit = text_;
  const std::size_t at = at_;
  enter(script);
  Output output;
  std::string folder = working_folder();
  const ShellBlock& block = script.tree.statements;
  bool simple = !script.tree.too_deep && !block.empty();
  for (std::size_t i = 0; i < block.size(); ++i)
    simple =
        simple && block[i].kind == ShellStatement::Kind::kCommand && block[i].joint != Joint::kOr;
  const auto status = status_;
  bool moved = true;  // each command so far changed the folder: another may follow
  for (const ShellStatement& one : block) {
    if (!simple || refused_) break;
    ++commands_;
    Parts parts = parts_of(one, output);
    Output next;
    simple =
        !parts.words.empty() && (moved || one.joint == Joint::kPipe) &&
        (run_folder(parts, folder, next) || run_filter(parts, next) || run_number(parts, next));
    moved = simple && !next && parts.words.front().text == "cd";
    output = std::move(next);
  }
  status_ = status;
  now_ = before;
  text_ = limit;
  at_ = at;
  if (!simple || !output) return std::nullopt;
  while (!output->text.empty() && output->text.back() == '\n') {
    output->text.pop_back();
    output->at.pop_back();
    output->quoted.pop_back();
  }
  for (std::size_t i = 0; i < output->text.size(); ++i)
    output->quoted[i] = output->text[i] != ' ' && output->text[i] != '\n';
  return output;
}

}  // namespace steelyard
