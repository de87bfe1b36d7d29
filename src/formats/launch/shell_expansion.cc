// What a word becomes: quotes, variables with their defaults, arrays, arithmetic; what nobody knows stays ${NAME}.
#include <fmt/format.h>

#include "formats/launch/mapping.h"
#include "formats/launch/shell_reader.h"

namespace steelyard {
namespace {

constexpr int kDeepestExpansion = 24;
constexpr std::size_t kLongestNumber = 64;  // letters of a variable in an expression

}  // namespace

std::vector<Letters> ShellReader::expanded(const ShellSpan& span, bool whole) {
  const std::size_t back = at_;
  at_ = span.from;
  const std::string_view text = text_;
  // What stands behind the word is not its own, whatever its letters are.
  text_ = text_.substr(0, span.upto);
  std::vector<Letters> words = expanded_word(whole);
  text_ = text;
  at_ = back;
  return words;
}

// One text, with blanks between an array's items.
Letters ShellReader::expanded_whole(const ShellSpan& span) {
  Letters all;
  for (const Letters& letters : expanded(span, true)) {
    if (!all.text.empty() && !letters.at.empty()) all.add(' ', letters.at.front(), false);
    all.add(letters);
  }
  return all;
}

// One word of the script, which may become none or several. `whole`: it does not split.
std::vector<Letters> ShellReader::expanded_word(bool whole) {
  std::vector<Letters> words(1);
  bool any = false;
  while (at_ < text_.size() && spent_ < kMostExpanded && !refused_) {
    const char c = peek();
    if (c == '\'') {
      const std::size_t end = std::min(text_.find('\'', at_ + 1), text_.size());
      // A later use of the variable without quotes splits at blanks, and as a script they are blanks, too.
      for (std::size_t i = at_ + 1; i < end; ++i)
        words.back().add(text_[i], place(i),
                         text_[i] != ' ' && text_[i] != '\n' && text_[i] != '\t');
      any = true;
      at_ = std::min(end + 1, text_.size());
    } else if (c == '"') {
      any = true;
      ++at_;
      double_quoted(words);
    } else if (c == '\\') {
      if (peek(1) == '\n' || peek(1) == '\r') {
        at_ += peek(1) == '\r' ? 3 : 2;
        continue;
      }
      if (at_ + 1 < text_.size()) words.back().add(peek(1), place(at_ + 1), true);
      at_ += 2;
    } else if (c == '$' && peek(1) == '\'') {
      any = true;
      escaped(words.back());
    } else if (c == '$' || c == '`') {
      expansion(words, false, whole);
    } else if ((c == '<' || c == '>') && peek(1) == '(') {
      hole(words, "command", at_);
      at_ = end_of_shell_parentheses(text_, at_ + 1);
    } else {
      words.back().add(c, place(at_), true);
      ++at_;
    }
  }
  if (spent_ >= kMostExpanded) {
    if (!complained_)
      note(place(at_), "expansions that grow beyond reason", "not followed further");
    complained_ = true;
    refused_ = true;
  }
  std::vector<Letters> result;
  for (Letters& word : words)
    if (!word.text.empty() || any) result.push_back(std::move(word));
  return result;
}

// $'two\nlines', up to its closing quote.
void ShellReader::escaped(Letters& letters) {
  static constexpr std::pair<char, char> kLetters[] = {{'n', '\n'}, {'t', '\t'},   {'r', '\r'},
                                                       {'a', '\a'}, {'b', '\b'},   {'f', '\f'},
                                                       {'v', '\v'}, {'e', '\x1b'}, {'E', '\x1b'}};
  at_ += 2;
  while (at_ < text_.size() && peek() != '\'') {
    const std::size_t from = at_;
    if (peek() != '\\' || at_ + 1 >= text_.size()) {
      letters.add(text_[at_++], place(from), true);
      continue;
    }
    const char c = peek(1);
    at_ += 2;
    const bool hexadecimal = c == 'x';
    int code = hexadecimal ? 0 : -1;
    int digits = 0;
    const auto digit = [&] {
      const char d = peek();
      if (d >= '0' && d <= (hexadecimal ? '9' : '7')) return d - '0';
      if (hexadecimal && d >= 'a' && d <= 'f') return d - 'a' + 10;
      if (hexadecimal && d >= 'A' && d <= 'F') return d - 'A' + 10;
      return -1;
    };
    if (!hexadecimal && c >= '0' && c <= '7') {
      code = c - '0';
      digits = 1;
    }
    while (code >= 0 && digits < (hexadecimal ? 2 : 3) && digit() >= 0) {
      code = code * (hexadecimal ? 16 : 8) + digit();
      ++at_;
      ++digits;
    }
    if (code >= 0) {
      letters.add(static_cast<char>(code & 0xFF), place(from), true);
      continue;
    }
    const auto* known = std::find_if(std::begin(kLetters), std::end(kLetters),
                                     [&](const auto& pair) { return pair.first == c; });
    letters.add(known == std::end(kLetters) ? c : known->second, place(from), true);
  }
  if (at_ < text_.size()) ++at_;
}

void ShellReader::double_quoted(std::vector<Letters>& words) {
  while (at_ < text_.size() && peek() != '"') {
    if (spent_ >= kMostExpanded) return;
    const char c = peek();
    if (c == '\\' && at_ + 1 < text_.size()) {
      const char next = peek(1);
      if (next == '\n') {
        at_ += 2;
        words.back().add(' ', place(at_ - 1), false);
      } else {
        if (std::string_view("\"$`\\").find(next) == std::string_view::npos)
          words.back().add('\\', place(at_), true);
        words.back().add(next, place(at_ + 1), true);
        at_ += 2;
      }
    } else if (c == '$' || c == '`') {
      expansion(words, true, true);
    } else {
      // A later unquoted use of the variable splits at these.
      words.back().add(c, place(at_), c != ' ' && c != '\n' && c != '\t');
      ++at_;
    }
  }
  if (at_ < text_.size()) ++at_;
}

// Text of a here-document or an arithmetic expression: variables alone.
Letters ShellReader::expanded_text(std::string_view text, std::size_t from) {
  const std::size_t back = at_;
  const std::string_view whole = text_;
  text_ = text_.substr(0, from + text.size());
  at_ = from;
  std::vector<Letters> words(1);
  while (at_ < text_.size() && spent_ < kMostExpanded && !refused_) {
    if (peek() == '$' || peek() == '`') {
      expansion(words, true, true);
    } else if (peek() == '\\' && (peek(1) == '$' || peek(1) == '\\' || peek(1) == '`')) {
      words.back().add(peek(1), place(at_ + 1), true);
      at_ += 2;
    } else {
      words.back().add(peek(), place(at_), true);
      ++at_;
    }
  }
  Letters all;
  for (const Letters& word : words) {
    if (&word != words.data()) all.add(' ', place(from), true);  // between an array's items
    for (std::size_t i = 0; i < word.text.size(); ++i) all.add(word.text[i], word.at[i], true);
  }
  text_ = whole;
  at_ = back;
  return all;
}

void ShellReader::hole(std::vector<Letters>& words, std::string_view name, std::size_t at) {
  for (const char c : fmt::format("${{{}}}", name)) words.back().add(c, place(at), true);
  spent_ += name.size();
}

Lookup ShellReader::lookup() {
  return [this](std::string_view name) -> std::optional<std::string> {
    const auto value = value_of(name);
    if (value == nullptr) cause_ = name;
    if (value == nullptr || value->items.empty()) return std::nullopt;
    const std::string& text = value->items.front().text;
    if (const std::string_view unknown = only_hole(text); !unknown.empty()) cause_ = unknown;
    return text.size() <= kLongestNumber ? std::optional(text) : std::nullopt;
  };
}

// Of a variable, or of $0, $1, ..., where they are known.
BranchedMap<ShellVariable>::Pointer ShellReader::value_of(std::string_view name) {
  const auto made = [&](std::string_view text) {
    Letters letters;
    for (const char c : text) letters.add(c, place(at_), true);
    return std::make_shared<const ShellVariable>(ShellVariable{{std::move(letters)}, false, {}});
  };
  if (name == "0" || name == "BASH_SOURCE") {
    const std::string& file = now_->source->name;
    return made(file.substr(file.rfind('/') == std::string::npos ? 0 : file.rfind('/') + 1));
  }
  const bool number =
      !name.empty() && name.find_first_not_of("0123456789") == std::string_view::npos;
  if ((number || name == "#") && !arguments_) return nullptr;
  if (name == "#") return made(std::to_string(arguments_->size()));
  if (number && name.size() < 4) {
    const std::size_t which = static_cast<std::size_t>(std::stoi(std::string(name)));
    return which <= arguments_->size() ? std::make_shared<const ShellVariable>(
                                             ShellVariable{{(*arguments_)[which - 1]}, false, {}})
                                       : made("");
  }
  if (name == "PWD" && given_names_.count(name) == 0) return made(working_folder());
  return variables_.find(name);
}

// What begins with $ (or a back quote): a variable, a default, arithmetic, or a command's output.
void ShellReader::expansion(std::vector<Letters>& words, bool quoted, bool whole) {
  if (expanding_ >= kDeepestExpansion)
    return refuse(place(at_), fmt::format("nested more than {} deep", kDeepestExpansion),
                  "expansions inside of expansions");
  ++expanding_;
  expansion_within(words, quoted, whole);
  --expanding_;
}

void ShellReader::expansion_within(std::vector<Letters>& words, bool quoted, bool whole) {
  const std::size_t from = at_;
  if (peek() == '`') {
    const std::size_t end = std::min(text_.find('`', at_ + 1), text_.size());
    at_ = std::min(end + 1, text_.size());
    return command_output(words, {from + 1, end}, quoted, whole);
  }
  if (rest().starts_with("$((")) {
    const std::size_t end = end_of_shell_parentheses(text_, at_ + 1);
    if (end >= from + 5 && text_.substr(end - 2, 2) == "))") {
      const Letters letters = expanded_text(text_.substr(at_ + 3, end - at_ - 5), at_ + 3);
      at_ = end;
      cause_.clear();
      if (has_hole(letters.text)) {
        const std::size_t begin = letters.text.find("${") + 2;
        cause_ = letters.text.substr(begin, letters.text.find('}', begin) - begin);
      }
      const auto value = has_hole(letters.text) ? std::nullopt : arithmetic(letters.text, lookup());
      if (!value) {
        script_.holes.emplace("arithmetic", ShellHole{cause_, "a sum that is not known here"});
        return hole(words, "arithmetic", from);
      }
      for (const char c : std::to_string(*value)) words.back().add(c, place(from), true);
      return;
    }
    if (end >= text_.size()) {
      at_ = text_.size();
      return;
    }
  }
  if (rest().starts_with("$(")) {
    const std::size_t end = end_of_shell_parentheses(text_, at_ + 1);
    at_ = end;
    return command_output(words, {from + 2, std::max(from + 2, end - 1)}, quoted, whole);
  }
  if (rest().starts_with("${")) return braces(words, quoted, whole);
  std::size_t end = at_ + 1;
  if (end < text_.size() && is_name_start(text_[end])) {
    while (end < text_.size() && is_name(text_[end])) ++end;
  } else if (end < text_.size() &&
             std::string_view("@*#?!$0123456789").find(text_[end]) != std::string_view::npos) {
    const std::string name(1, text_[end]);
    at_ = end + 1;
    if (name == "@" || name == "*") return put_all(words, name, from);
    return put(words, name, quoted, whole, from);
  } else {
    words.back().add('$', place(at_), true);
    ++at_;
    return;
  }
  const std::string name(text_.substr(at_ + 1, end - at_ - 1));
  at_ = end;
  put(words, name, quoted, whole, from);
}

// Letters of a variable into the word; unquoted, its blanks end words.
void ShellReader::spread(std::vector<Letters>& words, const Letters& letters, bool whole) {
  spent_ += letters.text.size() + 1;
  for (std::size_t i = 0; i < letters.text.size() && spent_ < kMostExpanded; ++i) {
    const char c = letters.text[i];
    if (!whole && (c == ' ' || c == '\n' || c == '\t' || c == '\r' ||
                   (c == '\\' && (i + 1 == letters.text.size() || letters.text[i + 1] == ' ' ||
                                  letters.text[i + 1] == '\n')))) {
      if (!words.back().text.empty()) words.emplace_back();
      continue;
    }
    words.back().add(c, letters.at[i], letters.quoted[i]);
  }
}

}  // namespace steelyard
