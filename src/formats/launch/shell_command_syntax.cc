// What one command of a script is made of: words, assignments, arrays, redirections and here-documents.
#include "formats/launch/shell_parser.h"

namespace steelyard {

void ShellParser::document(std::size_t which) {
  ShellDocument& one = tree_.documents[which];
  one.body.from = at_;
  while (at_ < text_.size()) {
    const std::size_t line_end = std::min(text_.find('\n', at_), text_.size());
    std::string_view line = text_.substr(at_, line_end - at_);
    if (line.ends_with("\r")) line.remove_suffix(1);
    if (one.tabs)
      while (line.starts_with("\t")) line.remove_prefix(1);
    one.body.upto = at_;
    at_ = std::min(line_end + 1, text_.size());
    if (line == one.end) return;
    one.body.upto = at_;
  }
}

// Words, assignments and redirections up to the end of the statement.
void ShellParser::command(ShellStatement& statement) {
  const bool simple = statement.kind == Kind::kCommand;
  bool assigns = simple;  // a NAME= is an assignment still
  bool declares = false;
  for (;;) {
    skip_blanks();
    const char c = peek();
    if (at_ >= text_.size() || c == '\n' || c == ';' || c == '|' || c == ')') return;
    if (c == '&' && peek(1) != '>') return;
    if (c == '#') return to_line_end();
    if (redirection(statement)) continue;
    if (!simple) return;
    if (assigns && assignment(statement)) continue;
    const std::size_t end = end_of_shell_word(text_, at_);
    if (end == at_) {  // a stray bracket
      ++at_;
      continue;
    }
    ShellPart part;
    part.span = {at_, end};
    const std::string_view word = part.span.of(text_);
    if (assigns)
      declares = declares || word == "export" || word == "declare" || word == "local" ||
                 word == "readonly" || word == "typeset";
    assigns = declares;
    at_ = end;
    statement.parts.push_back(std::move(part));
  }
}

bool ShellParser::assignment(ShellStatement& statement) {
  std::size_t end = at_;
  if (!is_name_start(peek())) return false;
  while (end < text_.size() && is_name(text_[end])) ++end;
  ShellPart part;
  part.kind = ShellPart::Kind::kAssignment;
  part.name = {at_, end};
  if (end < text_.size() && text_[end] == '[') {  // an element: its array is not followed
    const std::size_t close = text_.find_first_of("]\n", end);
    if (close == std::string_view::npos || text_[close] != ']') return false;
    end = close + 1;
  }
  part.adds = end < text_.size() && text_[end] == '+';
  if (part.adds) ++end;
  if (end >= text_.size() || text_[end] != '=') return false;
  at_ = end + 1;
  part.span.from = at_;
  if (peek() == '(') {
    part.array = true;
    ++at_;
    items(part);
  } else {
    at_ = end_of_shell_word(text_, at_);
  }
  part.span.upto = at_;
  statement.parts.push_back(std::move(part));
  return true;
}

void ShellParser::items(ShellPart& part) {
  while (at_ < text_.size()) {
    skip_blanks();
    if (peek() == '\n') {
      newline();
    } else if (peek() == '#') {
      to_line_end();
    } else if (peek() == ')') {
      ++at_;
      return;
    } else {
      const std::size_t end = end_of_shell_word(text_, at_);
      if (end > at_) part.items.push_back({at_, end});
      at_ = std::max(end, at_ + 1);
    }
  }
}

// > file, 2>&1, <<EOF, <<< word
bool ShellParser::redirection(ShellStatement& statement) {
  std::size_t sign = at_;
  while (sign < text_.size() && text_[sign] >= '0' && text_[sign] <= '9') ++sign;
  const char stream = sign > at_ ? text_[at_] : '\0';
  char c = sign < text_.size() ? text_[sign] : '\0';
  const bool both = c == '&' && sign + 1 < text_.size() && text_[sign + 1] == '>';
  if (both) c = text_[++sign];
  if (c != '<' && c != '>') return false;
  if (sign + 1 < text_.size() && text_[sign + 1] == '(') return false;
  ShellPart part;
  part.silent = stream != '\0' && stream != '1' && stream != '0';
  at_ = sign;
  if (rest().starts_with("<<") && !rest().starts_with("<<<")) return here_document(statement);
  part.kind = rest().starts_with("<<<")  ? ShellPart::Kind::kHereText
              : c == '<'                 ? ShellPart::Kind::kInput
              : rest().starts_with(">>") ? ShellPart::Kind::kAppend
                                         : ShellPart::Kind::kOutput;
  while (peek() == '<' || peek() == '>' || peek() == '|') ++at_;
  const bool stream_alone = peek() == '&';  // >&2
  if (stream_alone) ++at_;
  skip_blanks();
  const std::size_t end = end_of_shell_word(text_, at_);
  part.span = {at_, end};
  at_ = end;
  if (!stream_alone) statement.parts.push_back(std::move(part));
  return true;
}

bool ShellParser::here_document(ShellStatement& statement) {
  at_ += 2;
  ShellDocument document;
  if (peek() == '-') {
    document.tabs = true;
    ++at_;
  }
  skip_blanks();
  const std::size_t end = end_of_shell_word(text_, at_);
  for (; at_ < end; ++at_) {
    if (peek() == '\'' || peek() == '"' || peek() == '\\')
      document.expands = false;
    else
      document.end.push_back(peek());
  }
  ShellPart part;
  part.kind = ShellPart::Kind::kHereDocument;
  part.document = tree_.documents.size();
  pending_.push_back(part.document);
  tree_.documents.push_back(std::move(document));
  statement.parts.push_back(std::move(part));
  return true;
}

}  // namespace steelyard
