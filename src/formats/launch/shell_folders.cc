// The folder in which a script runs, and what `read` takes from the text it is given.
//
//   base=$(pwd)                             .          as it is started from its own folder
//   root=$(cd "$(dirname "$0")/.." && pwd)  ./..
//   read -r -d '' words <<EOF               the lines of the here-document
#include "formats/launch/shell_reader.h"

namespace steelyard {
namespace {

std::string without_last_slashes(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

std::string folder_inside(const std::string& folder, const std::string& name) {
  if (name.empty() || name == ".") return folder;
  // An unknown variable at the beginning mostly holds an absolute path.
  if (name.front() == '/' || name.front() == '~' || name.starts_with("${"))
    return without_last_slashes(name);
  const std::string inner = without_last_slashes(name.starts_with("./") ? name.substr(2) : name);
  if (inner.empty() || inner == ".") return folder;
  if (folder == "." && (inner == ".." || inner.starts_with("../"))) return "./" + inner;
  return folder == "." && name.starts_with("./") ? "./" + inner : folder + "/" + inner;
}

// dirname: of the script's own folder it is the folder above.
std::string folder_above(const std::string& path) {
  const std::string whole = without_last_slashes(path);
  const std::size_t slash = whole.rfind('/');
  const std::string last = whole.substr(slash == std::string::npos ? 0 : slash + 1);
  if (last == "." || last == "..") return whole + "/..";
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : whole.substr(0, slash);
}

std::string script_path(const std::string& name) {
  return name.starts_with("/") || name.starts_with(".") || has_hole(name) ? name : "./" + name;
}

}  // namespace

bool prints_folder(std::string_view command) {
  return command == "pwd" || command == "cd" || command == "dirname" || command == "realpath" ||
         command == "readlink";
}

std::string ShellReader::working_folder() {
  const auto value = variables_.find("PWD");
  return value && !value->items.empty() ? value->items.front().text : std::string(".");
}

void ShellReader::change_folder(const Parts& parts) {
  const auto to = folder_after(parts, working_folder());
  if (to)
    set("PWD", *to, parts.words.front().at.empty() ? 0 : parts.words.front().at.front());
  else
    assign_hole("PWD", {"", "a folder that is not known here"},
                parts.words.front().at.empty() ? 0 : parts.words.front().at.front());
}

// cd FOLDER
std::optional<std::string> ShellReader::folder_after(const Parts& parts,
                                                     const std::string& folder) const {
  std::size_t at = 1;
  while (at < parts.words.size() && parts.words[at].text.starts_with("-") &&
         parts.words[at].text.size() > 1)
    ++at;
  if (at + 1 != parts.words.size() || parts.words[at].text == "-") return std::nullopt;
  return folder_inside(folder, parts.words[at].text);
}

// One command of $( ... ): it changes `folder`, or prints one.
bool ShellReader::run_folder(const Parts& parts, std::string& folder, Output& output) {
  const std::string& first = parts.words.front().text;
  std::string printed;
  if (first == "cd") {
    const auto to = folder_after(parts, folder);
    if (to) folder = *to;
    return to.has_value();
  }
  if (first == "pwd") {
    printed = folder;
  } else if (first == "dirname" || first == "realpath" || first == "readlink") {
    const std::string& last = parts.words.back().text;
    if (parts.words.size() < 2 || last.empty() || last.starts_with("-")) return false;
    printed = first == "dirname" ? folder_above(last) : script_path(last);
  } else {
    return false;
  }
  const Letters& word = parts.words.front();
  Letters letters;
  for (const char c : printed) letters.add(c, word.at.empty() ? 0 : word.at.front(), true);
  output = std::move(letters);
  return true;
}

// read [-r] [-d SIGN] NAME ..., of a text that is known: its first line, or what comes before the sign.
bool ShellReader::read_variables(const Parts& parts) {
  if (!parts.has_input || !parts.input) return false;
  std::string_view end = "\n";
  bool array = false;
  std::size_t at = 1;
  for (; at < parts.words.size() && parts.words[at].text.starts_with("-"); ++at) {
    const std::string& option = parts.words[at].text;
    const char last = option.back();
    if (option.find_first_not_of("-rda") != std::string::npos) return false;
    array = array || option.find('a') != std::string::npos;
    if (last == 'd') {
      if (++at >= parts.words.size()) return false;
      end = std::string_view(parts.words[at].text).substr(0, 1);
    }
  }
  const auto separators = variables_.find("IFS");
  const std::string splits = separators && !separators->items.empty()
                                 ? separators->items.front().text
                                 : std::string(" \t\n");
  const auto is_blank = [](char c) { return c == ' ' || c == '\t' || c == '\n'; };
  const Letters& text = *parts.input;
  const std::size_t upto =
      end.empty() ? text.text.size() : std::min(text.text.find(end), text.text.size());
  std::size_t from = 0;
  std::vector<Letters> fields;
  const auto separates = [&](std::size_t i) { return splits.find(text.text[i]) < splits.size(); };
  const auto skip_blanks = [&] {
    while (from < upto && separates(from) && is_blank(text.text[from])) ++from;
  };
  const auto field = [&](bool rest) {
    std::size_t stop = from;
    while (stop < upto && (rest || !separates(stop))) ++stop;
    std::size_t last = stop;
    while (rest && last > from && separates(last - 1) && is_blank(text.text[last - 1])) --last;
    Letters letters;
    for (; from < last; ++from)
      letters.add(text.text[from], text.at[from], !is_blank(text.text[from]));
    from = stop;
    skip_blanks();
    if (from < upto && from >= stop && separates(from)) ++from;
    skip_blanks();
    return letters;
  };
  skip_blanks();
  if (array) {
    if (at >= parts.words.size()) return false;
    ShellVariable value;
    value.array = true;
    constexpr std::size_t kMostFields = 4096;
    while (from < upto && value.items.size() < kMostFields) value.items.push_back(field(false));
    assign(parts.words[at].text, std::move(value));
    return true;
  }
  for (; at < parts.words.size(); ++at)
    if (!parts.words[at].text.empty() && is_name_start(parts.words[at].text[0]))
      assign(parts.words[at].text, {{field(at + 1 == parts.words.size())}, false, {}});
  return true;
}

}  // namespace steelyard
