#include "formats/launch/shell_syntax.h"

#include <algorithm>
#include <utility>

namespace steelyard {
namespace {

constexpr int kDeepestBlock = 256;

class ShellParser {
 public:
  explicit ShellParser(std::string_view text) : text_(text) {}

  ShellTree tree() {
    while (at_ < text_.size()) {
      const std::size_t before = at_;
      block(tree_.statements);
      // A closing word that nothing opened.
      if (at_ < text_.size()) at_ += std::max<std::size_t>(1, closing());
      if (at_ <= before) at_ = before + 1;
    }
    return std::move(tree_);
  }

 private:
  using Kind = ShellStatement::Kind;
  using Joint = ShellStatement::Joint;

  char peek(std::size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }
  std::string_view rest() const { return text_.substr(std::min(at_, text_.size())); }
  void to_line_end() { at_ = std::min(text_.find('\n', at_), text_.size()); }

  void skip_blanks() {
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

  void newline() {
    ++at_;
    for (const std::size_t which : std::exchange(pending_, {})) document(which);
  }

  void document(std::size_t which) {
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

  // Blanks, comments, empty lines; `;` and `&` where a statement is over.
  void skip_separators() {
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

  bool keyword(std::string_view word) const {
    if (!rest().starts_with(word)) return false;
    const char next = peek(word.size());
    return std::string_view(" \t\r\n;()&|#").find(next) != std::string_view::npos ||
           at_ + word.size() >= text_.size();
  }
  bool take(std::string_view word) {
    if (!keyword(word)) return false;
    at_ += word.size();
    return true;
  }

  // Letters of the word that ends a block here; none.
  std::size_t closing() const {
    if (rest().starts_with(";;")) return rest().starts_with(";;&") ? 3 : 2;
    if (peek() == ')') return 1;
    for (const std::string_view word : {"then", "do", "else", "elif", "fi", "done", "esac", "}"})
      if (keyword(word)) return word.size();
    return 0;
  }

  void block(ShellBlock& into) {
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

  ShellStatement one() {
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

  bool compound(ShellStatement& statement) {
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
  ShellSpan doubly_parenthesised() {
    const std::size_t end = end_of_shell_parentheses(text_, at_);
    const ShellSpan span{std::min(at_ + 2, end), std::max(at_ + 2, end >= 2 ? end - 2 : 0)};
    at_ = end;
    return {span.from, std::max(span.from, std::min(span.upto, text_.size()))};
  }

  void branches(ShellStatement& statement) {
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

  void body(ShellStatement& statement) {
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

  void loop(ShellStatement& statement) {
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

  void words_of_line(ShellStatement& statement) {
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

  void choice(ShellStatement& statement) {
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

  ShellSpan name() {
    skip_blanks();
    ShellSpan span{at_, at_};
    while (span.upto < text_.size() && is_name(text_[span.upto])) ++span.upto;
    at_ = span.upto;
    return span;
  }

  // name() { ... } · function name { ... }
  bool function(ShellStatement& statement) {
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
  void test(ShellStatement& statement) {
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

  // Words, assignments and redirections up to the end of the statement.
  void command(ShellStatement& statement) {
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

  bool assignment(ShellStatement& statement) {
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

  void items(ShellPart& part) {
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
  bool redirection(ShellStatement& statement) {
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

  bool here_document(ShellStatement& statement) {
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

  std::string_view text_;
  std::size_t at_ = 0;
  int depth_ = 0;
  std::vector<std::size_t> pending_;  // here-documents whose text begins on the next line
  ShellTree tree_;
};

}  // namespace

ShellTree parse_shell(std::string_view text) { return ShellParser(text).tree(); }

}  // namespace steelyard
