// The reader behind shell.h: walks the tree of the script (shell_syntax.h) with the variables so far.
//
//   ShellScript script = ShellReader("job.sh", context).read(text);
#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/launch/shell.h"
#include "formats/launch/shell_arithmetic.h"
#include "formats/launch/shell_syntax.h"

namespace steelyard {

// Letters, each with its place: an offset into all texts that were read, one behind the other.
struct Letters {
  std::string text;
  std::vector<std::size_t> at;
  std::vector<bool> quoted;  // does not split

  void add(char c, std::size_t place, bool is_quoted) {
    text.push_back(c);
    at.push_back(place);
    quoted.push_back(is_quoted);
  }
  void add(const Letters& more) {
    for (std::size_t i = 0; i < more.text.size(); ++i)
      add(more.text[i], more.at[i], more.quoted[i]);
  }
};

struct ShellVariable {
  std::vector<Letters> items;  // one, or an array's
  bool array = false;
  std::vector<std::size_t>
      doubts;  // what a condition that is not known would add, said where it is used
};

// Names and values that a branch may change: what it changed can be taken back, and compared with another branch.
template <class Thing>
class BranchedMap {
 public:
  using Pointer = std::shared_ptr<const Thing>;
  using Changes = std::map<std::string, Pointer, std::less<>>;  // nothing: it is not there

  Pointer find(std::string_view name) const {
    const auto found = all_.find(name);
    return found == all_.end() ? nullptr : found->second;
  }
  void set(const std::string& name, Pointer value) {
    if (!before_.empty()) before_.back().emplace(name, find(name));
    if (value)
      all_[name] = std::move(value);
    else
      all_.erase(name);
  }
  void begin() { before_.emplace_back(); }
  // What was changed since, taken back.
  Changes take_back() {
    Changes before = std::move(before_.back());
    before_.pop_back();
    Changes changes;
    for (auto& [name, value] : before) {
      changes[name] = find(name);
      if (value)
        all_[name] = std::move(value);
      else
        all_.erase(name);
    }
    return changes;
  }
  const Changes& all() const { return all_; }
  // Another world, for a script of its own.
  Changes exchange(Changes others) { return std::exchange(all_, std::move(others)); }

 private:
  Changes all_;
  std::vector<Changes> before_;
};

// Whether a command prints a folder, or a path: pwd, cd FOLDER && pwd, dirname, realpath, readlink.
bool prints_folder(std::string_view command);

class ShellReader {
 public:
  ShellReader(std::string_view name, const ShellContext& context)
      : name_(name), context_(context) {}

  ShellScript read(std::string_view text);

 private:
  enum class Flow { kNext, kBreak, kContinue, kReturn, kExit };

  // One text: a script, or words of one that are read as a script. Letters of the latter stand where they were written.
  struct Text {
    std::shared_ptr<const Source> source;
    std::string own;  // where it has no source of its own
    std::string_view text;
    std::size_t base = 0;
    std::vector<std::size_t> places;
    std::vector<std::size_t> line_ends;
    ShellTree tree;
  };
  Text& add_text(std::string_view text, std::string_view name);
  Text& add_text(const Letters& letters);
  // Reads all of it, in the place of what is read now.
  Flow run_text(Text& text);
  void enter(const Text& text);

  // --- places and problems (shell_directives.cc)
  std::size_t place(std::size_t at) const;
  Mark mark_of(std::size_t place, std::size_t length) const;
  void note(std::size_t place, std::string message, std::string label);
  void refuse(std::size_t place, std::string message, std::string label);  // ends the reading

  // #SBATCH lines before the first command, remarks, what Slurm sets
  void read_directives(const Text& text);
  void directive(std::string_view line, std::size_t at);
  static std::string_view unquoted(std::string_view word);
  int remark(std::string_view line, std::size_t at);
  void seed();

  // --- shell.cc: statements
  Flow run(const ShellBlock& block);
  Flow run_joined(const ShellBlock& block, std::size_t from, std::size_t upto);
  Flow run_one(const ShellStatement& statement);
  Flow run_if(const ShellStatement& statement, std::size_t branch);
  Flow run_for(const ShellStatement& statement);
  Flow run_for_count(const ShellStatement& statement);
  Flow run_while(const ShellStatement& statement);
  Flow run_case(const ShellStatement& statement);
  Flow run_subshell(const ShellBlock& block);
  Flow turn(const ShellBlock& body, bool& goes_on);
  using Way = std::function<Flow()>;
  // A condition that is not known: both ways, and what they agree about.
  Flow either(std::size_t at, const Way& one, const Way& other);
  // A way that a test of unset variables leads: not where it ends the script, as where its usage is printed.
  Flow presumably(const Way& one, const Way& other);
  void merge(std::size_t at, const BranchedMap<ShellVariable>::Changes& one,
             const BranchedMap<ShellVariable>::Changes& other);
  void merge_files(const BranchedMap<Value>::Changes& one,
                   const BranchedMap<Value>::Changes& other);
  std::optional<ShellVariable> common_part(std::size_t at, const std::string& name,
                                           const ShellVariable* one, const ShellVariable* other);

  // --- shell_conditions.cc: what a test says, where it is known
  struct Truth {
    std::optional<bool> holds;
    bool presumed = false;  // of variables that nobody sets
  };
  void say(const Truth& truth);
  Truth test(const std::vector<std::string>& words);
  Truth alternatives(const std::vector<std::string>& words, std::size_t& at, int depth);
  Truth conjunction(const std::vector<std::string>& words, std::size_t& at, int depth);
  Truth single(const std::vector<std::string>& words, std::size_t& at, int depth);
  Truth primary(const std::vector<std::string>& words);
  Truth of_unset(const std::vector<std::string>& words) const;
  std::vector<std::string> words_of_test(const ShellStatement& statement);
  void arithmetic_statement(const ShellSpan& span);
  bool is_unset(std::string_view name) const;

  // --- shell_commands.cc: one command: its words, assignments and redirections
  using Output = std::optional<Letters>;  // what a command prints; nothing: it is not known
  Flow run_command(const ShellStatement& statement, const Output& input, Output& output);
  Flow run_pipeline(const ShellBlock& block, std::size_t from, std::size_t upto);
  struct Parts {
    std::vector<Letters> words;
    Output input;  // < file, <<EOF, <<< word, or the pipeline's
    bool has_input = false;
    std::vector<std::pair<std::string, bool>> outputs;  // file, and whether it is added to
    std::vector<const ShellPart*> assignments;
    bool here_document = false;
  };
  Parts parts_of(const ShellStatement& statement, const Output& input);
  Flow run_words(const ShellStatement& statement, Parts& parts, Output& output);
  std::optional<Flow> run_builtin(const ShellStatement& statement, Parts& parts, Output& output);
  std::optional<Flow> run_flow(const std::string& first, const Parts& parts);
  bool declare(const ShellStatement& statement, const Parts& parts);
  Flow run_function(const std::string& name, const Parts& parts);
  void assign(const ShellPart& part, bool exporting);
  void assign(const std::string& name, ShellVariable value);
  void assign_hole(const std::string& name, ShellHole why, std::size_t at);
  void set(const std::string& name, std::string_view text, std::size_t place);
  void export_variable(const std::string& name);
  void spend(const ShellVariable& variable);
  void push(std::vector<Letters> words, std::size_t at);
  bool give(std::size_t at);
  ShellWord word_value(const Letters& letters) const;

  // --- shell_programs.cc: scripts that this one starts or includes
  bool run_child(std::vector<Letters>& words, const Output& input, std::size_t at);
  void run_as_child(Text& text, std::vector<Letters> prefix,
                    std::optional<std::vector<Letters>> arguments, bool submitted);
  Text* script_text(const Letters& name, bool tells);
  Flow include(const Parts& parts);
  void submit(const Letters& text);

  // --- shell_folders.cc: the folder in which commands run, and `read`
  std::string working_folder();
  void change_folder(const Parts& parts);
  std::optional<std::string> folder_after(const Parts& parts, const std::string& folder) const;
  bool run_folder(const Parts& parts, std::string& folder, Output& output);
  bool read_variables(const Parts& parts);

  // --- shell_filters.cc: what commands print and write
  bool run_filter(const Parts& parts, Output& output);
  bool run_number(const Parts& parts, Output& output);
  Output concatenated(const std::vector<Letters>& files, const Parts& parts);
  Output edited(const Parts& parts);
  Output substituted(const Letters& text);
  Output file_content(const Letters& name);
  void write(const Parts& parts, const Output& output);
  void write_file(const std::string& name, const Output& content, bool adds);

  // --- shell_expansion.cc: words, quotes, and what begins with $
  static constexpr std::size_t kMostExpanded = std::size_t{1} << 20;  // of all expansions together
  std::vector<Letters> expanded(const ShellSpan& span, bool whole);
  Letters expanded_whole(const ShellSpan& span);
  std::vector<Letters> expanded_word(bool whole);
  void double_quoted(std::vector<Letters>& words);
  void escaped(Letters& letters);
  Letters expanded_text(std::string_view text, std::size_t from);
  void hole(std::vector<Letters>& words, std::string_view name, std::size_t at);
  Lookup lookup();
  void expansion(std::vector<Letters>& words, bool quoted, bool whole);
  void expansion_within(std::vector<Letters>& words, bool quoted, bool whole);
  void spread(std::vector<Letters>& words, const Letters& letters, bool whole);
  BranchedMap<ShellVariable>::Pointer value_of(std::string_view name);

  // --- shell_output.cc: what a command prints
  void command_output(std::vector<Letters>& words, ShellSpan inside, bool quoted, bool whole);
  Output output_of(ShellSpan inside);

  // --- shell_variables.cc: values, defaults, parts, arrays
  void braces(std::vector<Letters>& words, bool quoted, bool whole);
  bool changed_value(std::vector<Letters>& words, const std::string& name, std::string_view inside,
                     std::size_t from, bool whole);
  void fallback(std::vector<Letters>& words, const std::string& name, std::string_view text,
                std::size_t at, bool assigns, bool whole);
  void put(std::vector<Letters>& words, const std::string& name, bool quoted, bool whole,
           std::size_t from);
  void put_all(std::vector<Letters>& words, const std::string& name, std::size_t from,
               std::size_t skip = 0);

  char peek(std::size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }
  std::string_view rest() const { return text_.substr(std::min(at_, text_.size())); }

  std::string name_;
  const ShellContext& context_;
  std::deque<Text> texts_;
  const Text* now_ = nullptr;  // the text that is read
  std::string_view text_;      // its letters
  std::size_t at_ = 0;         // where its expansions are
  std::size_t letters_ = 0;    // of all texts together
  std::size_t spent_ = 0;
  bool complained_ = false;
  bool refused_ = false;  // an error ended the reading
  int commands_ = 0;
  int remarked_ = 0;   // values in remarks
  int depth_ = 0;      // scripts and functions inside of others
  int expanding_ = 0;  // expansions inside expansions
  int nested_ = 0;     // blocks inside of blocks, as they run
  int files_read_ = 0;

  BranchedMap<ShellVariable> variables_;
  BranchedMap<Value> files_;
  std::set<std::string, std::less<>> exported_;
  std::set<std::string, std::less<>> given_names_;  // from the user's own flags
  struct Function {
    const Text* text = nullptr;
    const ShellBlock* body = nullptr;
  };
  std::map<std::string, Function, std::less<>> functions_;
  std::optional<std::vector<Letters>> arguments_;  // $1, $2, ...; nothing: the caller did not say
  std::vector<Letters> prefix_;          // srun ...: before each command of a script that it starts
  std::vector<std::size_t> conditions_;  // that are not known, and in whose branch this is
  struct Doubt {
    std::size_t at = 0;
    std::string label;
    bool said = false;
  };
  std::vector<Doubt> doubts_;
  std::optional<bool> status_;
  bool presumed_ = false;  // that status, of variables that nobody sets
  bool external_ = false;  // of a program: it succeeds where others wait for it, and is no test
  std::string cause_;      // the variable on which the last status or arithmetic depended
  std::size_t given_ = 0;  // letters of exported variables that commands were given
  std::size_t submitted_ = 0;
  ShellScript script_;
};

}  // namespace steelyard
