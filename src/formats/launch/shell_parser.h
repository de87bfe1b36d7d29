// The parser behind shell_syntax.h: statements and blocks (shell_syntax.cc), and what one command is made of
// (shell_command_syntax.cc).
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/launch/shell_syntax.h"

namespace steelyard {

class ShellParser {
 public:
  explicit ShellParser(std::string_view text) : text_(text) {}

  ShellTree tree();

 private:
  using Kind = ShellStatement::Kind;
  using Joint = ShellStatement::Joint;

  char peek(std::size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }
  std::string_view rest() const { return text_.substr(std::min(at_, text_.size())); }
  void to_line_end() { at_ = std::min(text_.find('\n', at_), text_.size()); }

  // --- shell_syntax.cc: blocks and statements
  void skip_blanks();
  void skip_separators();
  bool keyword(std::string_view word) const;
  bool take(std::string_view word);
  std::size_t closing() const;
  void block(ShellBlock& into);
  ShellStatement one();
  bool compound(ShellStatement& statement);
  ShellSpan doubly_parenthesised();
  void branches(ShellStatement& statement);
  void body(ShellStatement& statement);
  void loop(ShellStatement& statement);
  void words_of_line(ShellStatement& statement);
  void choice(ShellStatement& statement);
  ShellSpan name();
  bool function(ShellStatement& statement);
  void test(ShellStatement& statement);

  // --- shell_command_syntax.cc: one command, and the here-documents behind its line
  void newline() {
    ++at_;
    for (const std::size_t which : std::exchange(pending_, {})) document(which);
  }
  void document(std::size_t which);
  void command(ShellStatement& statement);
  bool assignment(ShellStatement& statement);
  void items(ShellPart& part);
  bool redirection(ShellStatement& statement);
  bool here_document(ShellStatement& statement);

  std::string_view text_;
  std::size_t at_ = 0;
  int depth_ = 0;
  std::vector<std::size_t> pending_;  // here-documents whose text begins on the next line
  ShellTree tree_;
};

}  // namespace steelyard
