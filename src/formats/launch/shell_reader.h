// The reader behind shell.h: one pass over the text, a statement at a time, with the variables so far.
//
//   ShellScript script = ShellReader(text, "job.sh").read({});
#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/launch/shell.h"
#include "formats/launch/shell_arithmetic.h"

namespace steelyard {

// Letters, each with its place in the script.
struct Letters {
  std::string text;
  std::vector<std::size_t> at;
  std::vector<bool> quoted;  // does not split

  void add(char c, std::size_t place, bool is_quoted) {
    text.push_back(c);
    at.push_back(place);
    quoted.push_back(is_quoted);
  }
};

inline bool is_name_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
inline bool is_name(char c) { return is_name_start(c) || (c >= '0' && c <= '9'); }

struct ShellVariable {
  std::vector<Letters> items;  // one, or an array's
  bool array = false;
};

class ShellReader {
 public:
  ShellReader(std::string_view text, std::string_view name)
      : source_(source_of(name, text)), text_(source_->text) {
    for (std::size_t i = 0; i < text_.size(); ++i)
      if (text_[i] == '\n') line_ends_.push_back(i);
  }

  ShellScript read(const ShellEnvironment& environment);

 private:
  enum class Branch { kTaken, kSkipped };

  Mark mark_of(std::size_t at, std::size_t length) const;
  void note(std::size_t at, std::string message, std::string label);
  // Ends the reading.
  void refuse(std::size_t at, std::string message, std::string label);

  // --- shell_directives.cc: #SBATCH lines before the first command, remarks, what Slurm sets
  void read_directives();
  void directive(std::string_view line, std::size_t at);
  static std::string_view unquoted(std::string_view word);
  int remark(std::string_view line, std::size_t at);
  void set(const std::string& name, std::string_view text, std::size_t at);
  void seed();

  // --- shell.cc: statements, and conditions that are constants
  bool taken() const;
  void statements();
  struct IfBranch {
    bool taken = false;
    bool done = false;     // an earlier branch was it
    bool unknown = false;  // nobody knows
    bool loop = false;
  };

  void skip_blanks();
  char peek(std::size_t ahead = 0) const;
  std::string_view rest() const { return text_.substr(std::min(at_, text_.size())); }
  bool keyword(std::string_view word) const;
  void to_line_end() { at_ = std::min(text_.find('\n', at_), text_.size()); }

  void statement();
  void arithmetic_statement();
  void condition(bool opens);
  static std::optional<bool> list_of(const std::vector<std::string>& words);
  static std::optional<bool> test_of(std::vector<std::string> words);

  // --- shell_commands.cc: words of a command, redirections, here-documents, assignments
  struct Pending {  // a here-document whose text begins on the next line
    std::string end;
    bool expands = true;
    bool tabs = false;
    std::string file;
    bool submitted = false;  // what `sbatch` is given to run
  };

  void command();
  void run(ShellCommand command);
  static void split_word(const ShellWord& word, std::vector<ShellWord>& into);
  ShellWord word_value(const Letters& letters) const;
  bool redirect(std::vector<Pending>& pending, std::string& target);
  void here_document(const Pending& pending);
  void submit(std::string_view text);
  bool assignment(bool live, bool exporting, ShellCommand& command);
  void spend(const ShellVariable& variable);
  void array_items(std::vector<Letters>& items);

  // --- shell_expansion.cc: quotes, variables, arrays, braces
  std::vector<Letters> expanded_word(bool whole);
  void double_quoted(std::vector<Letters>& words);
  Letters expanded_text(std::string_view text, std::size_t from);
  void hole(std::vector<Letters>& words, std::string_view name, std::size_t at);
  Lookup lookup() const;
  void expansion(std::vector<Letters>& words, bool quoted, bool whole);
  void expansion_within(std::vector<Letters>& words, bool quoted, bool whole);
  void braces(std::vector<Letters>& words, bool quoted, bool whole);
  void put(std::vector<Letters>& words, const std::string& name, bool quoted, bool whole,
           std::size_t from);
  void put_all(std::vector<Letters>& words, const std::string& name, std::size_t from);
  void spread(std::vector<Letters>& words, const Letters& letters, bool whole);

  std::shared_ptr<const Source> source_;
  std::string_view text_;
  std::vector<std::size_t> line_ends_;
  std::size_t at_ = 0;
  std::size_t spent_ = 0;
  bool complained_ = false;
  bool refused_ = false;  // an error ended the reading
  int commands_ = 0;
  int remarked_ = 0;   // values in remarks
  int depth_ = 0;      // scripts inside scripts
  int expanding_ = 0;  // expansions inside expansions
  std::map<std::string, ShellVariable, std::less<>> variables_;
  std::map<std::string, Value, std::less<>> exported_;
  std::size_t exported_letters_ = 0;
  std::size_t given_ = 0;  // letters of exported variables that commands were given
  void export_variable(const std::string& name, ShellWord value);
  bool give(std::size_t at);
  std::vector<IfBranch> branches_;
  std::vector<Pending> pending_;
  ShellScript script_;
};

}  // namespace steelyard
