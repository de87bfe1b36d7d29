// What a few commands print, and what a script writes to files with them: cat, echo, printf, sed, envsubst, tee, cp.
#include <fmt/format.h>

#include "formats/launch/shell_reader.h"

namespace steelyard {
namespace {

constexpr std::size_t kLongestOutput = std::size_t{256} << 10;

// One s/from/to/ of sed, with any sign between; its letters are letters.
struct Replacement {
  std::string from, to;
};

bool is_plain(std::string_view pattern) {
  return pattern.find_first_of("*[]^$+?|(){}") == std::string_view::npos;
}

std::optional<Replacement> replacement_of(std::string_view command) {
  while (!command.empty() && (command.front() == ' ' || command.front() == '\n'))
    command.remove_prefix(1);
  if (command.size() < 4 || command.front() != 's') return std::nullopt;
  const char sign = command[1];
  std::string parts[2];
  std::size_t i = 2;
  for (std::string& part : parts) {
    while (i < command.size() && command[i] != sign) {
      if (command[i] == '\\' && i + 1 < command.size()) ++i;
      part.push_back(command[i++]);
    }
    if (i >= command.size()) return std::nullopt;
    ++i;
  }
  // ${NAME} in what is replaced is a variable that is not known; `.` is any letter, and mostly meant as itself.
  if (parts[0].empty() || !is_plain(parts[0])) return std::nullopt;
  return Replacement{parts[0], parts[1]};
}

std::vector<std::string> commands_of(std::string_view text) {
  std::vector<std::string> commands;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find_first_of(";\n"), text.size());
    if (end > 0) commands.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return commands;
}

Letters replaced(const Letters& letters, const Replacement& one) {
  Letters result;
  std::size_t i = 0;
  while (i < letters.text.size()) {
    if (letters.text.compare(i, one.from.size(), one.from) == 0) {
      for (const char c : one.to) result.add(c, letters.at[i], true);
      i += one.from.size();
    } else {
      result.add(letters.text[i], letters.at[i], true);
      ++i;
    }
  }
  return result;
}

// \n of echo -e and printf.
Letters unescaped(const Letters& letters) {
  Letters result;
  for (std::size_t i = 0; i < letters.text.size(); ++i) {
    char c = letters.text[i];
    if (c == '\\' && i + 1 < letters.text.size()) {
      const char next = letters.text[i + 1];
      if (next == 'n' || next == 't' || next == '\\') {
        c = next == 'n' ? '\n' : next == 't' ? '\t' : '\\';
        ++i;
      }
    }
    result.add(c, letters.at[i], true);
  }
  return result;
}

}  // namespace

ShellReader::Output ShellReader::file_content(const Letters& name) {
  Letters letters;
  const std::size_t at = name.at.empty() ? 0 : name.at.front();
  if (const auto file = files_.find(name.text)) {
    for (const char c : file->as_string()) letters.add(c, at, true);
    spent_ += letters.text.size();
    return letters;
  }
  if (has_hole(name.text) || !context_.read_file || ++files_read_ > 64) return std::nullopt;
  const auto file = context_.read_file(name.text);
  if (!file || file->text.size() > kLongestOutput) return std::nullopt;
  for (const char c : file->text) letters.add(c, at, true);
  spent_ += letters.text.size();
  return letters;
}

ShellReader::Output ShellReader::concatenated(const std::vector<Letters>& files,
                                              const Parts& parts) {
  if (files.empty()) return parts.input;
  Letters all;
  for (const Letters& file : files) {
    const Output content = file.text == "-" ? parts.input : file_content(file);
    if (!content) return std::nullopt;
    all.add(*content);
  }
  return all;
}

// sed -e s/A/B/ file
ShellReader::Output ShellReader::edited(const Parts& parts) {
  std::vector<std::string> commands;
  std::vector<Letters> files;
  bool in_place = false;
  bool said = false;
  for (std::size_t i = 1; i < parts.words.size(); ++i) {
    const std::string& word = parts.words[i].text;
    if (word == "-e" && i + 1 < parts.words.size()) {
      for (std::string& one : commands_of(parts.words[++i].text))
        commands.push_back(std::move(one));
      said = true;
    } else if (word.starts_with("-i")) {
      in_place = true;
    } else if (word.starts_with("-")) {
      if (word != "-E" && word != "-r" && word != "--regexp-extended") return std::nullopt;
    } else if (!said) {
      for (std::string& one : commands_of(word)) commands.push_back(std::move(one));
      said = true;
    } else {
      files.push_back(parts.words[i]);
    }
  }
  Output content = concatenated(files, parts);
  for (const std::string& command : commands) {
    const auto one = replacement_of(command);
    if (!one || !content || spent_ > (std::size_t{1} << 20)) {
      content.reset();
      break;
    }
    content = replaced(*content, *one);
    spent_ += content->text.size();
  }
  if (in_place)
    for (const Letters& file : files) write_file(file.text, content, false);
  return content;
}

// envsubst: $NAME and ${NAME}, as they are exported.
ShellReader::Output ShellReader::substituted(const Letters& text) {
  Letters result;
  std::size_t i = 0;
  while (i < text.text.size()) {
    std::size_t from = i + 1;
    const bool braced = from < text.text.size() && text.text[from] == '{';
    if (braced) ++from;
    std::size_t end = from;
    while (end < text.text.size() && is_name(text.text[end])) ++end;
    const bool closed = !braced || (end < text.text.size() && text.text[end] == '}');
    const bool is_variable = text.text[i] == '$' && end > from && closed;
    const auto value = is_variable
                           ? variables_.find(std::string_view(text.text).substr(from, end - from))
                           : nullptr;
    if (!value || value->items.empty()) {
      result.add(text.text[i], text.at[i], true);
      ++i;
      continue;
    }
    result.add(value->items.front());
    spent_ += value->items.front().text.size();
    i = end + (braced ? 1 : 0);
    if (spent_ > (std::size_t{1} << 20)) return std::nullopt;
  }
  return result;
}

// Whether this command is one of those, and starts nothing.
bool ShellReader::run_filter(const Parts& parts, Output& output) {
  const std::string& first = parts.words.front().text;
  const std::vector<Letters> rest(parts.words.begin() + 1, parts.words.end());
  if (first == "echo" || first == "printf") {
    Letters line;
    bool escapes = first == "printf";
    bool ends = first == "echo";
    std::size_t i = 0;
    while (first == "echo" && i < rest.size() && (rest[i].text == "-e" || rest[i].text == "-n")) {
      escapes = escapes || rest[i].text == "-e";
      ends = ends && rest[i].text != "-n";
      ++i;
    }
    if (first == "printf" && rest.size() > 1) {  // printf '%s\n' word
      if (rest[0].text.find("%s") == std::string::npos) return true;
      i = 1;
      ends = rest[0].text.ends_with("\\n");
    }
    for (bool begun = false; i < rest.size(); ++i, begun = true) {
      if (begun) line.add(' ', rest[i].at.empty() ? 0 : rest[i].at.front(), false);
      line.add(rest[i]);
    }
    if (escapes) line = unescaped(line);
    if (ends) line.add('\n', line.at.empty() ? 0 : line.at.back(), false);
    spent_ += line.text.size();
    output = std::move(line);
    return true;
  }
  if (first == "cat") {
    output = concatenated(rest, parts);
    return true;
  }
  if (first == "tee") {
    for (const Letters& file : rest)
      if (!file.text.starts_with("-")) write_file(file.text, parts.input, false);
    output = parts.input;
    return true;
  }
  if (first == "sed") {
    output = edited(parts);
    return true;
  }
  if (first == "envsubst") {
    if (parts.input) output = substituted(*parts.input);
    return true;
  }
  if ((first == "cp" || first == "mv") && rest.size() >= 2) {
    write_file(rest.back().text, file_content(rest[rest.size() - 2]), false);
    return true;
  }
  if (first == "jq" || first == "yq" || first == "grep" || first == "awk" || first == "head" ||
      first == "tail" || first == "sort" || first == "tr" || first == "cut" || first == "mkdir" ||
      first == "rm" || first == "ls" || first == "cd" || first == "pwd" || first == "sleep")
    return true;
  return false;
}

// basename, expr, bc, seq: what $( ... ) of them is.
bool ShellReader::run_number(const Parts& parts, Output& output) {
  const std::string& first = parts.words.front().text;
  const std::size_t at = parts.words.front().at.empty() ? 0 : parts.words.front().at.front();
  const auto print = [&](std::string_view text) {
    Letters letters;
    for (const char c : text) letters.add(c, at, true);
    output = std::move(letters);
    return true;
  };
  if (first == "basename" && parts.words.size() > 1) {
    std::string name = parts.words[1].text;
    if (has_hole(name)) return false;
    name.erase(0, name.rfind('/') == std::string::npos ? 0 : name.rfind('/') + 1);
    if (parts.words.size() > 2 && name.ends_with(parts.words[2].text))
      name.resize(name.size() - parts.words[2].text.size());
    return print(name);
  }
  std::string expression;
  if (first == "expr")
    for (std::size_t i = 1; i < parts.words.size(); ++i) expression += parts.words[i].text + " ";
  else if (first == "bc" && parts.input)
    expression = parts.input->text;
  if (!expression.empty() && !has_hole(expression)) {
    while (expression.ends_with('\n') || expression.ends_with(' ')) expression.pop_back();
    if (const auto value = arithmetic(expression, lookup())) return print(std::to_string(*value));
  }
  return false;
}

void ShellReader::write(const Parts& parts, const Output& output) {
  for (const auto& [file, adds] : parts.outputs) write_file(file, output, adds);
}

void ShellReader::write_file(const std::string& name, const Output& content, bool adds) {
  if (name.empty() || name.starts_with("/dev/")) return;
  const auto before = adds ? files_.find(name) : nullptr;
  if (!content || (adds && !before && script_.unwritten.count(name) > 0)) {
    files_.set(name, nullptr);
    if (!content) script_.unwritten[name] = "a command that is not run here writes it";
    return;
  }
  std::string text = (before ? before->as_string() : std::string()) + content->text;
  spent_ += text.size();
  if (text.size() > kLongestOutput * 4) return;
  Value file = Value::string(std::move(text));
  Mark mark;  // lines are counted within it
  mark.source = source_of(fmt::format("{} in {}", name, name_), file.as_string());
  mark.line = 1;
  mark.column = 1;
  file.set_mark(std::move(mark));
  script_.unwritten.erase(name);
  files_.set(name, std::make_shared<const Value>(std::move(file)));
}

}  // namespace steelyard
