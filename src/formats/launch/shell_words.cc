// Where a word ends: quotes and expansions hold blanks and signs of their own.
#include <algorithm>

#include "formats/launch/shell_syntax.h"

namespace steelyard {
namespace {

constexpr int kDeepestWord =
    64;  // expansions inside of expansions; what is deeper is refused when it is expanded

std::size_t word_from(std::string_view text, std::size_t at, int depth);
std::size_t parentheses_from(std::string_view text, std::size_t at, int depth);
std::size_t braces_from(std::string_view text, std::size_t at, int depth);

std::size_t past(std::string_view text, char c, std::size_t at) {
  const std::size_t end = text.find(c, at);
  return end == std::string_view::npos ? text.size() : end + 1;
}

std::size_t back_quotes_from(std::string_view text, std::size_t at) {
  for (std::size_t i = at + 1; i < text.size(); ++i) {
    if (text[i] == '\\')
      ++i;
    else if (text[i] == '`')
      return i + 1;
  }
  return text.size();
}

// What begins with `$`; the sign alone where nothing does.
std::size_t dollar_from(std::string_view text, std::size_t at, int depth) {
  const char next = at + 1 < text.size() ? text[at + 1] : '\0';
  if (next == '(') return parentheses_from(text, at + 1, depth + 1);
  if (next == '{') return braces_from(text, at + 1, depth + 1);
  return at + 1;
}

std::size_t double_quotes_from(std::string_view text, std::size_t at, int depth) {
  std::size_t i = at + 1;
  while (i < text.size() && text[i] != '"') {
    if (text[i] == '\\')
      i += 2;
    else if (text[i] == '$')
      i = dollar_from(text, i, depth);
    else if (text[i] == '`')
      i = back_quotes_from(text, i);
    else
      ++i;
  }
  return std::min(i + 1, text.size());
}

std::size_t escaped_from(std::string_view text, std::size_t at) {
  std::size_t i = at + 2;
  while (i < text.size() && text[i] != '\'') i += text[i] == '\\' ? 2 : 1;
  return std::min(i + 1, text.size());
}

// The lines of a here-document, from the first of them to the one behind its end.
std::size_t document_from(std::string_view text, std::size_t at, std::string_view end) {
  while (at < text.size()) {
    const std::size_t line_end = std::min(text.find('\n', at), text.size());
    std::string_view line = text.substr(at, line_end - at);
    line.remove_prefix(std::min(line.find_first_not_of('\t'), line.size()));
    at = std::min(line_end + 1, text.size());
    if (line == end) break;
  }
  return at;
}

std::size_t parentheses_from(std::string_view text, std::size_t at, int depth) {
  if (depth > kDeepestWord) return text.size();
  int open = 0;
  std::string_view document;  // that begins on the next line
  std::size_t i = at;
  while (i < text.size()) {
    const char c = text[i];
    if (c == '\\') {
      i += 2;
    } else if (c == '\'') {
      i = past(text, '\'', i + 1);
    } else if (c == '"') {
      i = double_quotes_from(text, i, depth + 1);
    } else if (c == '`') {
      i = back_quotes_from(text, i);
    } else if (c == '$' && i + 1 < text.size() && text[i + 1] == '{') {
      i = braces_from(text, i + 1, depth + 1);
    } else if (c == '<' && text.substr(i).starts_with("<<") && !text.substr(i).starts_with("<<<") &&
               i + 2 < text.size() &&
               (is_name_start(text[i + 2]) || text[i + 2] == '-' || text[i + 2] == '\'' ||
                text[i + 2] == '"')) {
      std::size_t from = i + 2;
      while (from < text.size() && (text[from] == '-' || text[from] == '\'' || text[from] == '"'))
        ++from;
      i = from;
      while (i < text.size() && is_name(text[i])) ++i;
      document = text.substr(from, i - from);
      if (i < text.size() && (text[i] == '\'' || text[i] == '"')) ++i;
    } else if (c == '\n' && !document.empty()) {
      i = document_from(text, i + 1, document);
      document = {};
    } else {
      ++i;
      if (c == '(') ++open;
      if (c == ')' && --open == 0) return i;
    }
  }
  return text.size();
}

std::size_t braces_from(std::string_view text, std::size_t at, int depth) {
  if (depth > kDeepestWord) return text.size();
  std::size_t i = at + 1;
  while (i < text.size()) {
    const char c = text[i];
    if (c == '\\')
      i += 2;
    else if (c == '"')
      i = double_quotes_from(text, i, depth + 1);
    else if (c == '$')
      i = dollar_from(text, i, depth);
    else if (c == '{')
      i = braces_from(text, i, depth + 1);
    else if (c == '}')
      return i + 1;
    else
      ++i;
  }
  return text.size();
}

std::size_t word_from(std::string_view text, std::size_t at, int depth) {
  std::size_t i = at;
  // <( ... ) is a word.
  if (i + 1 < text.size() && (text[i] == '<' || text[i] == '>') && text[i + 1] == '(')
    i = parentheses_from(text, i + 1, depth);
  while (i < text.size()) {
    const char c = text[i];
    if (std::string_view(" \t\n\r;|&()<>").find(c) != std::string_view::npos) break;
    if (c == '\\')
      i += text.substr(i).starts_with("\\\r\n") ? 3 : 2;
    else if (c == '\'')
      i = past(text, '\'', i + 1);
    else if (c == '"')
      i = double_quotes_from(text, i, depth);
    else if (c == '`')
      i = back_quotes_from(text, i);
    else if (c == '$' && i + 1 < text.size() && text[i + 1] == '\'')
      i = escaped_from(text, i);
    else if (c == '$')
      i = dollar_from(text, i, depth);
    else
      ++i;
  }
  return std::min(i, text.size());
}

}  // namespace

std::size_t end_of_shell_word(std::string_view text, std::size_t from) {
  return word_from(text, from, 0);
}
std::size_t end_of_shell_parentheses(std::string_view text, std::size_t from) {
  return parentheses_from(text, from, 0);
}
std::size_t end_of_shell_braces(std::string_view text, std::size_t from) {
  return braces_from(text, from, 0);
}

}  // namespace steelyard
