// Statements of a script, blocks inside of them, and where each ends.
#include "formats/launch/shell_syntax.h"

#include <algorithm>
#include <utility>

#include "formats/launch/shell_parser.h"

namespace steelyard {
namespace {

constexpr int kDeepestBlock = 256;

}  // namespace

ShellTree ShellParser::tree() {
  while (at_ < text_.size()) {
    const std::size_t before = at_;
    block(tree_.statements);
    // A closing word that nothing opened.
    if (at_ < text_.size()) at_ += std::max<std::size_t>(1, closing());
    if (at_ <= before) at_ = before + 1;
  }
  return std::move(tree_);
}

void ShellParser::skip_blanks() {
  while (at_ < text_.size()) {
    if (peek() == ' ' || peek() == '\t' || peek() == '\r') {
      ++at_;
      continue;
    }
    if (peek() != '\\') return;
    // A line that goes on; blanks behind the sign were not meant.
    const std::size_t end = text_.find_first_not_of(" \t\r", at_ + 1);
    if (end == std::string_view::npos || text_[end] != '\n') return;
    at_ = end + 1;
  }
}

// Blanks, comments, empty lines; `;` and `&` where a statement is over.
void ShellParser::skip_separators() {
  for (;;) {
    skip_blanks();
    if (peek() == '\n')
      newline();
    else if (peek() == '#')
      to_line_end();
    else if ((peek() == ';' && peek(1) != ';') || (peek() == '&' && peek(1) != '>'))
      ++at_;
    else
      return;
  }
}

bool ShellParser::keyword(std::string_view word) const {
  if (!rest().starts_with(word)) return false;
  const char next = peek(word.size());
  return std::string_view(" \t\r\n;()&|#").find(next) != std::string_view::npos ||
         at_ + word.size() >= text_.size();
}

bool ShellParser::take(std::string_view word) {
  if (!keyword(word)) return false;
  at_ += word.size();
  return true;
}

// Letters of the word that ends a block here; none.
std::size_t ShellParser::closing() const {
  if (rest().starts_with(";;")) return rest().starts_with(";;&") ? 3 : 2;
  if (peek() == ')') return 1;
  for (const std::string_view word : {"then", "do", "else", "elif", "fi", "done", "esac", "}"})
    if (keyword(word)) return word.size();
  return 0;
}

void ShellParser::block(ShellBlock& into) {
  if (++depth_ > kDeepestBlock) {
    tree_.too_deep = true;
    tree_.at = at_;
    at_ = text_.size();
  }
  Joint joint = Joint::kNext;
  while (at_ < text_.size()) {
    skip_separators();
    if (at_ >= text_.size() || closing() > 0) break;
    const std::size_t before = at_;
    ShellStatement statement = one();
    statement.joint = joint;
    into.push_back(std::move(statement));
    skip_blanks();
    joint = Joint::kNext;
    if (rest().starts_with("&&") || rest().starts_with("||")) {
      joint = peek() == '&' ? Joint::kAnd : Joint::kOr;
      at_ += 2;
    } else if (peek() == '|') {
      joint = Joint::kPipe;
      at_ += peek(1) == '&' ? 2 : 1;
    }
    if (at_ == before) ++at_;
  }
  --depth_;
}

ShellStatement ShellParser::one() {
  ShellStatement statement;
  while (peek() == '!' && (peek(1) == ' ' || peek(1) == '\t')) {
    statement.negated = !statement.negated;
    ++at_;
    skip_blanks();
  }
  statement.at = at_;
  if (compound(statement)) {
    command(statement);  // where its output goes
  } else if (function(statement)) {
  } else {
    command(statement);
  }
  return statement;
}

bool ShellParser::compound(ShellStatement& statement) {
  if (rest().starts_with("((")) {
    statement.kind = Kind::kArithmetic;
    statement.name = doubly_parenthesised();
  } else if (peek() == '(') {
    ++at_;
    statement.kind = Kind::kSubshell;
    block(statement.blocks.emplace_back());
    if (peek() == ')') ++at_;
  } else if (take("{")) {
    statement.kind = Kind::kGroup;
    block(statement.blocks.emplace_back());
    take("}");
  } else if (take("[[")) {
    statement.kind = Kind::kTest;
    test(statement);
  } else if (take("if")) {
    branches(statement);
  } else if (keyword("for") || keyword("select")) {
    at_ += peek() == 'f' ? 3 : 6;
    loop(statement);
  } else if (keyword("while") || keyword("until")) {
    statement.kind = peek() == 'w' ? Kind::kWhile : Kind::kUntil;
    at_ += 5;
    block(statement.blocks.emplace_back());
    body(statement);
  } else if (take("case")) {
    choice(statement);
  } else {
    return false;
  }
  return true;
}

// (( ... ))
ShellSpan ShellParser::doubly_parenthesised() {
  const std::size_t end = end_of_shell_parentheses(text_, at_);
  const ShellSpan span{std::min(at_ + 2, end), std::max(at_ + 2, end >= 2 ? end - 2 : 0)};
  at_ = end;
  return {span.from, std::max(span.from, std::min(span.upto, text_.size()))};
}

void ShellParser::branches(ShellStatement& statement) {
  statement.kind = Kind::kIf;
  for (;;) {
    block(statement.blocks.emplace_back());
    take("then");
    block(statement.blocks.emplace_back());
    if (!take("elif")) break;
  }
  if (take("else")) block(statement.blocks.emplace_back());
  take("fi");
}

void ShellParser::body(ShellStatement& statement) {
  skip_separators();
  if (take("{")) {
    block(statement.blocks.emplace_back());
    take("}");
    return;
  }
  take("do");
  block(statement.blocks.emplace_back());
  take("done");
}

void ShellParser::loop(ShellStatement& statement) {
  statement.kind = Kind::kFor;
  skip_blanks();
  if (rest().starts_with("((")) {
    statement.kind = Kind::kForCount;
    statement.name = doubly_parenthesised();
  } else {
    statement.name = name();
    skip_separators();
    if (take("in")) {
      statement.lists = true;
      words_of_line(statement);
    }
  }
  body(statement);
}

void ShellParser::words_of_line(ShellStatement& statement) {
  for (;;) {
    skip_blanks();
    const char c = peek();
    if (at_ >= text_.size() || c == '\n' || c == ';' || c == '#') return;
    const std::size_t end = end_of_shell_word(text_, at_);
    if (end > at_) {
      ShellPart part;
      part.span = {at_, end};
      statement.parts.push_back(std::move(part));
    }
    at_ = std::max(end, at_ + 1);
  }
}

void ShellParser::choice(ShellStatement& statement) {
  statement.kind = Kind::kCase;
  skip_blanks();
  ShellPart word;
  word.span = {at_, end_of_shell_word(text_, at_)};
  at_ = word.span.upto;
  statement.parts.push_back(std::move(word));
  skip_separators();
  take("in");
  for (;;) {
    skip_separators();
    if (at_ >= text_.size() || take("esac")) return;
    const std::size_t before = at_;
    if (peek() == '(') ++at_;
    std::vector<ShellSpan> patterns;
    while (at_ < text_.size() && peek() != ')' && peek() != '\n') {
      skip_blanks();
      const std::size_t end = end_of_shell_word(text_, at_);
      if (end > at_) patterns.push_back({at_, end});
      at_ = std::max(end, at_ + (peek() == ')' || peek() == '\n' ? 0 : 1));
      if (end == at_) continue;
    }
    if (peek() == ')') ++at_;
    statement.patterns.push_back(std::move(patterns));
    block(statement.blocks.emplace_back());
    if (rest().starts_with(";;") || rest().starts_with(";&"))
      at_ += rest().starts_with(";;&") ? 3 : 2;
    else if (closing() > 0 && !keyword("esac"))
      at_ += closing();
    if (at_ <= before) at_ = before + 1;
  }
}

ShellSpan ShellParser::name() {
  skip_blanks();
  ShellSpan span{at_, at_};
  while (span.upto < text_.size() && is_name(text_[span.upto])) ++span.upto;
  at_ = span.upto;
  return span;
}

// name() { ... } · function name { ... }
bool ShellParser::function(ShellStatement& statement) {
  const std::size_t from = at_;
  const bool said = take("function");
  skip_blanks();
  std::size_t end = at_;
  while (end < text_.size() &&
         (is_name(text_[end]) || text_[end] == '-' || text_[end] == '.' || text_[end] == ':'))
    ++end;
  const ShellSpan called{at_, end};
  at_ = end;
  skip_blanks();
  bool brackets = false;
  if (peek() == '(') {
    std::size_t close = at_ + 1;
    while (close < text_.size() && (text_[close] == ' ' || text_[close] == '\t')) ++close;
    if (close < text_.size() && text_[close] == ')') {
      brackets = true;
      at_ = close + 1;
    }
  }
  if (called.from == called.upto || !(said || brackets)) {
    at_ = from;
    return false;
  }
  statement.kind = Kind::kFunction;
  statement.name = called;
  skip_separators();
  if (take("{")) {
    block(statement.blocks.emplace_back());
    take("}");
  } else if (peek() == '(') {
    ++at_;
    block(statement.blocks.emplace_back());
    if (peek() == ')') ++at_;
  }
  return true;
}

// Words up to ]]; && || ( ) < > are words of their own.
void ShellParser::test(ShellStatement& statement) {
  for (;;) {
    skip_blanks();
    if (at_ >= text_.size() || take("]]")) return;
    ShellPart part;
    part.span.from = at_;
    if (peek() == '\n') {
      newline();
      continue;
    }
    if (rest().starts_with("&&") || rest().starts_with("||")) {
      at_ += 2;
    } else {
      const std::size_t end = end_of_shell_word(text_, at_);
      at_ = std::max(end, at_ + 1);
    }
    part.span.upto = at_;
    statement.parts.push_back(std::move(part));
  }
}

ShellTree parse_shell(std::string_view text) { return ShellParser(text).tree(); }

}  // namespace steelyard
