// What a word becomes: quotes, variables with their defaults, arrays, arithmetic; what nobody knows stays ${NAME}.
#include <fmt/format.h>

#include "formats/launch/mapping.h"
#include "formats/launch/shell_reader.h"

namespace steelyard {
namespace {

constexpr std::size_t kMostLetters = std::size_t{1} << 20;  // of all expansions together
constexpr int kDeepestExpansion = 24;
constexpr std::size_t kLongestNumber = 64;  // letters of a variable in an expression

}  // namespace

// One word of the script, which may become none or several. `whole`: it does not split.
std::vector<Letters> ShellReader::expanded_word(bool whole) {
  std::vector<Letters> words(1);
  bool any = false;
  while (at_ < text_.size() && spent_ < kMostLetters) {
    const char c = peek();
    if (c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == ';' || c == '|' || c == '&' ||
        c == '(' || c == ')' || c == '<' || c == '>')
      break;
    if (c == '\'') {
      const std::size_t end = std::min(text_.find('\'', at_ + 1), text_.size());
      for (std::size_t i = at_ + 1; i < end; ++i) words.back().add(text_[i], i, true);
      any = true;
      at_ = std::min(end + 1, text_.size());
    } else if (c == '"') {
      any = true;
      ++at_;
      double_quoted(words);
    } else if (c == '\\') {
      if (peek(1) == '\n' || peek(1) == '\r') {
        at_ += peek(1) == '\r' ? 3 : 2;
        if (at_ < text_.size() && (peek() == ' ' || peek() == '\t')) break;
        continue;
      }
      if (at_ + 1 < text_.size()) words.back().add(peek(1), at_ + 1, true);
      at_ += 2;
    } else if (c == '$' || c == '`') {
      expansion(words, false, whole);
    } else {
      words.back().add(c, at_, true);
      ++at_;
    }
  }
  if (spent_ >= kMostLetters) {
    if (!complained_) note(at_, "expansions that grow beyond reason", "not followed further");
    complained_ = true;
    at_ = text_.size();
  }
  std::vector<Letters> result;
  for (Letters& word : words)
    if (!word.text.empty() || any) result.push_back(std::move(word));
  return result;
}

void ShellReader::double_quoted(std::vector<Letters>& words) {
  while (at_ < text_.size() && peek() != '"') {
    if (spent_ >= kMostLetters) return;
    const char c = peek();
    if (c == '\\' && at_ + 1 < text_.size()) {
      const char next = peek(1);
      if (next == '\n') {
        at_ += 2;
        words.back().add(' ', at_ - 1, false);
      } else {
        if (std::string_view("\"$`\\").find(next) == std::string_view::npos)
          words.back().add('\\', at_, true);
        words.back().add(next, at_ + 1, true);
        at_ += 2;
      }
    } else if (c == '$' || c == '`') {
      expansion(words, true, true);
    } else {
      // A later unquoted use of the variable splits at these.
      words.back().add(c, at_, c != ' ' && c != '\n' && c != '\t');
      ++at_;
    }
  }
  if (at_ < text_.size()) ++at_;
}

// Text of a here-document or an arithmetic expression: variables alone.
Letters ShellReader::expanded_text(std::string_view text, std::size_t from) {
  const std::size_t back = at_;
  const std::size_t upto = from + text.size();
  at_ = from;
  std::vector<Letters> words(1);
  while (at_ < upto && spent_ < kMostLetters) {
    if (peek() == '$') {
      expansion(words, true, true);
    } else if (peek() == '\\' && (peek(1) == '$' || peek(1) == '\\')) {
      words.back().add(peek(1), at_ + 1, true);
      at_ += 2;
    } else {
      words.back().add(peek(), at_, true);
      ++at_;
    }
  }
  at_ = refused_ ? text_.size() : back;
  Letters all;
  for (const Letters& word : words) {
    if (&word != words.data()) all.add(' ', from, true);  // between an array's items
    for (std::size_t i = 0; i < word.text.size(); ++i) all.add(word.text[i], word.at[i], true);
  }
  return all;
}

void ShellReader::hole(std::vector<Letters>& words, std::string_view name, std::size_t at) {
  for (const char c : fmt::format("${{{}}}", name)) words.back().add(c, at, true);
  spent_ += name.size();
}

Lookup ShellReader::lookup() const {
  return [this](std::string_view name) -> std::optional<std::string> {
    const auto found = variables_.find(name);
    if (found == variables_.end() || found->second.items.empty()) return std::nullopt;
    const std::string& text = found->second.items.front().text;
    return text.size() <= kLongestNumber ? std::optional(text) : std::nullopt;
  };
}

// What begins with $ (or a back quote): a variable, a default, arithmetic, or a command's output.
void ShellReader::expansion(std::vector<Letters>& words, bool quoted, bool whole) {
  if (expanding_ >= kDeepestExpansion)
    return refuse(at_, fmt::format("nested more than {} deep", kDeepestExpansion),
                  "expansions inside of expansions");
  ++expanding_;
  expansion_within(words, quoted, whole);
  --expanding_;
}

void ShellReader::expansion_within(std::vector<Letters>& words, bool quoted, bool whole) {
  const std::size_t from = at_;
  if (peek() == '`') {
    at_ = std::min(text_.find('`', at_ + 1), text_.size() - 1) + 1;
    return hole(words, "command", from);
  }
  if (rest().starts_with("$((")) {
    const std::size_t end = text_.find("))", at_);
    if (end == std::string_view::npos) {
      at_ = text_.size();
      return;
    }
    const Letters letters = expanded_text(text_.substr(at_ + 3, end - at_ - 3), at_ + 3);
    at_ = refused_ ? text_.size() : end + 2;
    const auto value = has_hole(letters.text) ? std::nullopt : arithmetic(letters.text, lookup());
    if (!value) return hole(words, "arithmetic", from);
    for (const char c : std::to_string(*value)) words.back().add(c, from, true);
    return;
  }
  if (rest().starts_with("$(")) {
    int open = 0;
    std::size_t i = at_ + 1;
    for (; i < text_.size(); ++i) {
      if (text_[i] == '(') ++open;
      if (text_[i] == ')' && --open == 0) break;
    }
    at_ = std::min(i + 1, text_.size());
    return hole(words, "command", from);
  }
  if (rest().starts_with("${")) return braces(words, quoted, whole);
  std::size_t end = at_ + 1;
  if (end < text_.size() && is_name_start(text_[end])) {
    while (end < text_.size() && is_name(text_[end])) ++end;
  } else if (end < text_.size() &&
             std::string_view("@*#?0123456789").find(text_[end]) != std::string_view::npos) {
    const std::string name(1, text_[end]);
    at_ = end + 1;
    // Positional words are the caller's: none.
    if (name == "@" || name == "*") return;
    return hole(words, name, from);
  } else {
    words.back().add('$', at_, true);
    ++at_;
    return;
  }
  const std::string name(text_.substr(at_ + 1, end - at_ - 1));
  at_ = end;
  put(words, name, quoted, whole, from);
}

// ${NAME}, ${NAME[@]}, ${NAME:-default}
void ShellReader::braces(std::vector<Letters>& words, bool quoted, bool whole) {
  const std::size_t from = at_;
  std::size_t end = at_ + 2;
  while (end < text_.size() && is_name(text_[end])) ++end;
  const std::string name(text_.substr(from + 2, end - from - 2));
  // The closing brace, with those inside.
  int open = 1;
  std::size_t close = end;
  while (close < text_.size()) {
    if (text_[close] == '{') ++open;
    if (text_[close] == '}' && --open == 0) break;
    ++close;
  }
  if (close >= text_.size()) {
    at_ = text_.size();
    return;
  }
  const std::string_view inside = text_.substr(end, close - end);
  const auto found = variables_.find(name);
  const bool known = found != variables_.end();
  const bool empty = !known || found->second.items.empty() ||
                     (found->second.items.size() == 1 && found->second.items[0].text.empty());
  at_ = close + 1;
  if (inside.empty() || inside == "[0]") return put(words, name, quoted, whole, from);
  if (inside == "[@]" || inside == "[*]") return put_all(words, name, from);
  std::size_t skip = 0;
  if (inside.starts_with(":-") || inside.starts_with(":=")) {
    skip = 2;
  } else if (inside.starts_with("-") || inside.starts_with("=")) {
    skip = 1;
  } else if (inside.starts_with(":+") || inside.starts_with("+")) {
    if (empty) return;
    skip = inside.front() == ':' ? 2 : 1;
  } else {
    return hole(words, name.empty() ? "expression" : name, from);
  }
  const bool alternative = inside.find('+') == skip - 1;
  if (!alternative && known && !empty) return put(words, name, quoted, whole, from);
  std::string_view fallback = inside.substr(skip);
  std::size_t place = end + skip;
  if (fallback.size() >= 2 && (fallback.front() == '"' || fallback.front() == '\'') &&
      fallback.back() == fallback.front()) {
    fallback = fallback.substr(1, fallback.size() - 2);
    ++place;
  }
  const std::size_t back = at_;
  at_ = place;
  Letters letters;
  std::vector<Letters> inner(1);
  const std::size_t upto = place + fallback.size();
  while (at_ < upto && spent_ < kMostLetters) {
    if (peek() == '$') {
      expansion(inner, true, true);
    } else {
      inner.back().add(peek(), at_, peek() != ' ' && peek() != '\n');
      ++at_;
    }
  }
  at_ = refused_ ? text_.size() : back;
  for (const Letters& word : inner)
    for (std::size_t i = 0; i < word.text.size(); ++i)
      letters.add(word.text[i], word.at[i], word.quoted[i]);
  if (inside.find('=') == skip - 1 && !name.empty()) variables_[name] = {{letters}, false};
  spread(words, letters, quoted || whole);
}

void ShellReader::put(std::vector<Letters>& words, const std::string& name, bool quoted, bool whole,
                      std::size_t from) {
  const auto found = variables_.find(name);
  if (found == variables_.end()) return hole(words, name, from);
  if (found->second.items.empty()) return;
  spread(words, found->second.items.front(), quoted || whole);
}

void ShellReader::put_all(std::vector<Letters>& words, const std::string& name, std::size_t from) {
  const auto found = variables_.find(name);
  if (found == variables_.end()) return hole(words, name + "[@]", from);
  bool first = true;
  for (const Letters& item : found->second.items) {
    if (!first || !words.back().text.empty()) words.emplace_back();
    first = false;
    // An element such as "--fp8-format hybrid" is two words to whoever joins them; split it as unquoted.
    const bool pair = item.text.starts_with("--") && item.text.find(' ') != std::string::npos &&
                      item.text.find('{') == std::string::npos;
    spread(words, item, !pair);
  }
}

// Letters of a variable into the word; unquoted, its blanks end words.
void ShellReader::spread(std::vector<Letters>& words, const Letters& letters, bool whole) {
  spent_ += letters.text.size() + 1;
  for (std::size_t i = 0; i < letters.text.size() && spent_ < kMostLetters; ++i) {
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
