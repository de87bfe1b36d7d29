// One command of a script: its words, where they go, and what it assigns.
#include <fmt/format.h>

#include "formats/launch/mapping.h"
#include "formats/launch/shell_reader.h"

namespace steelyard {
namespace {

constexpr std::size_t kMostGiven = std::size_t{8}
                                   << 20;  // letters of exported variables, over all commands
constexpr std::size_t kMostCommands = 300'000;
constexpr std::size_t kLettersOfEntry = 64;  // what a variable takes beside its letters

}  // namespace

void ShellReader::command() {
  const bool live = taken();
  ++commands_;
  ShellCommand command;
  bool words_begun = false;
  bool exporting = false;
  std::vector<Pending> pending;
  std::string target;
  while (at_ < text_.size()) {
    skip_blanks();
    const char c = peek();
    if (c == '\n' || c == '\0' || c == ';' || c == '|' || c == ')') break;
    if (c == '&' && peek(1) != '>') break;
    if (c == '#') {
      to_line_end();
      break;
    }
    if (redirect(pending, target)) continue;
    if (!words_begun && assignment(live, exporting, command)) continue;
    const std::size_t before = at_;
    std::vector<Letters> words = expanded_word(false);
    if (at_ == before) {  // `(` of a subshell or function
      ++at_;
      continue;
    }
    for (const Letters& letters : words) {
      if (!words_begun && !exporting &&
          (letters.text == "export" || letters.text == "declare" || letters.text == "local" ||
           letters.text == "readonly")) {
        exporting = true;
        continue;
      }
      if (exporting) continue;
      words_begun = true;
      command.words.push_back(word_value(letters));
    }
  }
  const bool submits = !command.words.empty() && command.words.front().as_string() == "sbatch";
  for (Pending& one : pending) {
    one.file = target;
    one.submitted = submits;
    pending_.push_back(one);
  }
  if (!live || command.words.empty()) return;
  if (give(at_))
    for (const auto& [name, value] : exported_) command.environment.emplace(name, value);
  run(std::move(command));
}

void ShellReader::export_variable(const std::string& name, ShellWord value) {
  const auto letters = [&](const Value& text) {
    return name.size() + text.as_string().size() + kLettersOfEntry;
  };
  const auto before = exported_.find(name);
  if (before != exported_.end()) exported_letters_ -= letters(before->second);
  exported_letters_ += letters(value);
  exported_[name] = std::move(value);
}

// Whether another command is given what is exported: each has it all, and so many commands of a long script take gigabytes.
bool ShellReader::give(std::size_t at) {
  given_ += exported_letters_;
  if (given_ <= kMostGiven) return true;
  refuse(at, "exported variables that grow beyond reason",
         fmt::format("more than {} MiB over all commands", kMostGiven >> 20));
  return false;
}

// What a shell itself does with a command: eval, exec, bash -c.
void ShellReader::run(ShellCommand command) {
  const std::string first = command.words.front().as_string();
  if ((first == "eval" || first == "exec" || first == "time" || first == "nohup") &&
      command.words.size() > 1) {
    command.words.erase(command.words.begin());
    if (first == "eval") {
      std::vector<ShellWord> split;
      for (const ShellWord& word : command.words) split_word(word, split);
      command.words = std::move(split);
    }
    if (!command.words.empty()) script_.commands.push_back(std::move(command));
    return;
  }
  script_.commands.push_back(std::move(command));
}

void ShellReader::split_word(const ShellWord& word, std::vector<ShellWord>& into) {
  std::string_view text = word.as_string();
  while (!text.empty()) {
    const std::size_t from = text.find_first_not_of(" \t\n\\");
    if (from == std::string_view::npos) return;
    text.remove_prefix(from);
    const std::size_t end = std::min(text.find_first_of(" \t\n"), text.size());
    ShellWord part = Value::string(std::string(text.substr(0, end)));
    part.set_mark(word.mark());
    into.push_back(std::move(part));
    text.remove_prefix(end);
  }
}

ShellWord ShellReader::word_value(const Letters& letters) const {
  ShellWord word = Value::string(letters.text);
  word.set_mark(mark_of(letters.at.empty() ? at_ : letters.at.front(), letters.text.size()));
  return word;
}

// > file, 2>&1, <<EOF
bool ShellReader::redirect(std::vector<Pending>& pending, std::string& target) {
  std::size_t digits = at_;
  while (digits < text_.size() && text_[digits] >= '0' && text_[digits] <= '9') ++digits;
  const char c = digits < text_.size() ? text_[digits] : '\0';
  if (c != '<' && c != '>' && !(c == '&' && digits + 1 < text_.size() && text_[digits + 1] == '>'))
    return false;
  at_ = digits;
  if (rest().starts_with("<<") && !rest().starts_with("<<<")) {
    at_ += 2;
    Pending one;
    if (peek() == '-') {
      one.tabs = true;
      ++at_;
    }
    skip_blanks();
    one.expands = peek() != '\'' && peek() != '"' && peek() != '\\';
    for (const Letters& letters : expanded_word(true)) one.end += letters.text;
    pending.push_back(std::move(one));
    return true;
  }
  while (peek() == '<' || peek() == '>' || peek() == '&' || peek() == '|') ++at_;
  skip_blanks();
  if (peek() == '\n') return true;
  std::string file;
  for (const Letters& letters : expanded_word(true)) file += letters.text;
  if (c == '>') target = file;
  return true;
}

void ShellReader::here_document(const Pending& pending) {
  const std::size_t from = at_;
  std::size_t end = at_;
  while (end < text_.size()) {
    const std::size_t line_end = std::min(text_.find('\n', end), text_.size());
    std::string_view line = text_.substr(end, line_end - end);
    if (line.ends_with("\r")) line.remove_suffix(1);
    if (pending.tabs)
      while (line.starts_with("\t")) line.remove_prefix(1);
    if (line == pending.end) break;
    end = std::min(line_end + 1, text_.size());
  }
  const std::string_view body = text_.substr(from, end - from);
  const bool live = taken();
  std::string content(body);
  if (pending.expands && live) content = expanded_text(body, from).text;
  at_ = std::min(text_.find('\n', end), text_.size());
  if (live && pending.submitted) submit(content);
  if (!live || pending.file.empty()) return;
  Value file = Value::string(std::move(content));
  Mark mark;  // lines are counted within it
  mark.source = source_of(fmt::format("{} in {}", pending.file, source_->name), file.as_string());
  mark.line = 1;
  mark.column = 1;
  file.set_mark(std::move(mark));
  script_.files[pending.file] = std::move(file);
}

// A script that this one hands to sbatch: its directives and its commands, with what is exported here.
void ShellReader::submit(std::string_view text) {
  if (depth_ > 0 || script_.commands.size() > kMostCommands || !give(at_)) return;
  ShellReader inner(text, fmt::format("the job in {}", source_->name));
  inner.depth_ = depth_ + 1;
  ShellScript script = inner.read(exported_);
  if (script_.directives.members().empty()) script_.directives = std::move(script.directives);
  for (ShellCommand& command : script.commands) script_.commands.push_back(std::move(command));
  for (Diagnostic& problem : script.problems) add_problem(script_.problems, std::move(problem));
}

// NAME=value, NAME+=value, NAME=( ... ), and nothing else: then false.
bool ShellReader::assignment(bool live, bool exporting, ShellCommand& command) {
  std::size_t end = at_;
  if (end >= text_.size() || !is_name_start(text_[end])) return false;
  while (end < text_.size() && is_name(text_[end])) ++end;
  const std::string name(text_.substr(at_, end - at_));
  bool adds = false;
  if (end < text_.size() && text_[end] == '+') {
    adds = true;
    ++end;
  }
  if (end >= text_.size() || text_[end] != '=') {
    if (exporting && live) {  // export NAME
      at_ = end;
      if (const auto found = variables_.find(name);
          found != variables_.end() && !found->second.items.empty())
        export_variable(name, word_value(found->second.items.front()));
      return true;
    }
    return false;
  }
  at_ = end + 1;
  ShellVariable value;
  if (peek() == '(') {
    value.array = true;
    ++at_;
    array_items(value.items);
  } else {
    value.items.emplace_back();
    for (Letters& letters : expanded_word(true)) {
      Letters& item = value.items.front();
      // An array's items, in a text: with blanks between them.
      if (!item.text.empty() && !letters.at.empty()) item.add(' ', letters.at.front(), false);
      for (std::size_t i = 0; i < letters.text.size(); ++i)
        item.add(letters.text[i], letters.at[i], letters.quoted[i]);
    }
  }
  if (!live) return true;
  ShellVariable& variable = variables_[name];
  if (!adds) {
    variable = std::move(value);
  } else if (value.array || variable.array) {
    variable.array = true;
    variable.items.insert(variable.items.end(), value.items.begin(), value.items.end());
  } else {
    if (variable.items.empty()) variable.items.emplace_back();
    Letters& item = variable.items.front();
    const Letters& more = value.items.front();
    for (std::size_t i = 0; i < more.text.size(); ++i)
      item.add(more.text[i], more.at[i], more.quoted[i]);
  }
  if (!variable.items.empty()) {
    const ShellWord word = word_value(variable.items.front());
    if (exporting) export_variable(name, word);
    command.environment[name] = word;
  }
  spend(variable);
  return true;
}

void ShellReader::spend(const ShellVariable& variable) {
  for (const Letters& item : variable.items) spent_ += item.text.size();
}

void ShellReader::array_items(std::vector<Letters>& items) {
  while (at_ < text_.size()) {
    skip_blanks();
    if (peek() == '\n') {
      ++at_;
    } else if (peek() == '#') {
      to_line_end();
    } else if (peek() == ')') {
      ++at_;
      return;
    } else {
      const std::size_t before = at_;
      for (Letters& letters : expanded_word(false)) items.push_back(std::move(letters));
      if (at_ == before) ++at_;
    }
  }
}

}  // namespace steelyard
