#include "formats/launch/shell.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "document/read.h"
#include "formats/launch/mapping.h"
#include "formats/launch/shell_arithmetic.h"

namespace steelyard {
namespace {

constexpr std::size_t kMostLetters = std::size_t{1} << 20;  // of all expansions together
constexpr std::size_t kMostScript = std::size_t{4} << 20;
constexpr int kDeepestExpansion = 24;
constexpr int kMostDirectives = 1000;        // #SBATCH lines and remarks
constexpr std::size_t kMostGiven = 300'000;  // exported variables, over all commands

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

bool is_name_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_name(char c) { return is_name_start(c) || (c >= '0' && c <= '9'); }

struct Variable {
  std::vector<Letters> items;  // one, or an array's
  bool array = false;
};

class ShellReader {
 public:
  ShellReader(std::string_view text, std::string_view name)
      : source_(std::make_shared<Source>(Source{std::string(name), std::string(text), 1})),
        text_(source_->text) {
    for (std::size_t i = 0; i < text_.size(); ++i)
      if (text_[i] == '\n') line_ends_.push_back(i);
  }

  ShellScript read(const ShellEnvironment& environment) {
    for (const auto& [name, value] : environment) set(name, word_of(value), 0);
    read_directives();
    statements();
    return std::move(script_);
  }

 private:
  enum class Branch { kTaken, kSkipped };

  Mark mark_of(std::size_t at, std::size_t length) const {
    at = std::min(at, text_.size());
    const auto line = std::lower_bound(line_ends_.begin(), line_ends_.end(), at);
    const std::size_t number = static_cast<std::size_t>(line - line_ends_.begin());
    const std::size_t start = number == 0 ? 0 : line_ends_[number - 1] + 1;
    Mark mark;
    mark.source = source_;
    mark.line = static_cast<int>(number) + 1;
    mark.column = static_cast<int>(at - start) + 1;
    mark.length = static_cast<int>(std::max<std::size_t>(1, std::min<std::size_t>(length, 200)));
    return mark;
  }

  void note(std::size_t at, std::string message, std::string label) {
    script_.problems.push_back({Severity::kWarning,
                                "E602",
                                std::move(message),
                                mark_of(at, 1).place(),
                                std::move(label),
                                {}});
  }

  // --- #SBATCH lines: before the first command, `##SBATCH` is off ------------------------------------

  void read_directives() {
    std::size_t at = 0;
    bool commands = false;
    int read = 0;
    while (at < text_.size() && read < kMostDirectives) {
      const std::size_t end = std::min(text_.find('\n', at), text_.size());
      std::string_view line = text_.substr(at, end - at);
      while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.remove_suffix(1);
      const std::size_t first = line.find_first_not_of(" \t");
      if (line.starts_with("#SBATCH") && !commands) {
        ++read;
        directive(line.substr(7), at + 7);
      } else if (first != std::string_view::npos && line[first] != '#') {
        commands = true;
      } else if (first != std::string_view::npos) {
        read += remark(line.substr(first), at + first);
      }
      at = end + 1;
    }
    seed();
  }

  // --nodes=4 · -N 4 · --exclusive
  void directive(std::string_view line, std::size_t at) {
    std::size_t i = 0;
    const auto word = [&]() {
      while (i < line.size() && (line[i] == ' ' || line[i] == '\t')) ++i;
      const std::size_t from = i;
      while (i < line.size() && line[i] != ' ' && line[i] != '\t') ++i;
      return line.substr(from, i - from);
    };
    for (std::string_view option = word(); !option.empty(); option = word()) {
      if (option.front() == '#') return;
      if (option.front() != '-') continue;
      std::string_view value;
      if (const std::size_t sign = option.find('='); sign != std::string_view::npos) {
        value = option.substr(sign + 1);
        option = option.substr(0, sign);
      } else if (!option.starts_with("--") && option.size() > 2) {
        value = option.substr(2);
        option = option.substr(0, 2);
      } else {
        const std::size_t before = i;
        value = word();
        if (value.starts_with("-") || value.starts_with("#")) {
          i = before;
          value = {};
        }
      }
      static constexpr std::pair<std::string_view, std::string_view> kShort[] = {
          {"-N", "nodes"}, {"-n", "ntasks"},   {"-G", "gpus"},          {"-p", "partition"},
          {"-t", "time"},  {"-J", "job_name"}, {"-c", "cpus_per_task"}, {"-C", "constraint"}};
      std::string name(option.substr(option.starts_with("--") ? 2 : 1));
      for (const auto& [letter, meant] : kShort)
        if (option == letter) name = meant;
      std::replace(name.begin(), name.end(), '-', '_');
      Value said = value.empty() ? Value::boolean(true) : typed_value(unquoted(value));
      if (name == "time") said = Value::string(std::string(unquoted(value)));
      said.set_mark(mark_of(at + static_cast<std::size_t>(option.data() - line.data()),
                            option.size() + 1 + value.size()));
      const Mark mark = said.mark();
      if (Value::Member* member = script_.directives.member(name))
        member->value = std::move(said);
      else
        script_.directives.members().push_back({name, mark, std::move(said)});
    }
  }

  static std::string_view unquoted(std::string_view word) {
    if (word.size() >= 2 && (word.front() == '"' || word.front() == '\'') &&
        word.back() == word.front())
      return word.substr(1, word.size() - 2);
    return word;
  }

  // One, when it is a remark.
  int remark(std::string_view line, std::size_t at) {
    static constexpr std::string_view kMark = "# steelyard: ";
    if (!line.starts_with(kMark)) return 0;
    const ReadValue read = read_toml(line.substr(kMark.size()), source_->name);
    if (!read) return 1;
    const std::function<void(const Value&, const std::string&)> place =
        [&](const Value& table, const std::string& path) {
          for (const Value::Member& member : table.members()) {
            const std::string inner = path.empty() ? member.key : path + "." + member.key;
            if (member.value.is_table() && inner != "model") {
              place(member.value, inner);
              continue;
            }
            Value value = member.value;
            value.set_mark(mark_of(at, line.size()));
            set_path(script_.remarks, inner, std::move(value), mark_of(at, line.size()).place());
          }
        };
    place(*read, "");
    return 1;
  }

  void set(const std::string& name, std::string_view text, std::size_t at) {
    Letters letters;
    for (const char c : text) letters.add(c, at, true);
    variables_[name] = {{std::move(letters)}, false};
  }

  // What Slurm sets for a job of these directives.
  void seed() {
    const auto say = [&](const char* name, const char* key) {
      if (const Value* value = script_.directives.find(key)) set(name, word_of(*value), 0);
    };
    say("SLURM_NNODES", "nodes");
    say("SLURM_JOB_NUM_NODES", "nodes");
    say("SLURM_NTASKS_PER_NODE", "ntasks_per_node");
    say("SLURM_NTASKS", "ntasks");
    const Value* nodes = script_.directives.find("nodes");
    const Value* tasks = script_.directives.find("ntasks_per_node");
    if (script_.directives.find("ntasks") == nullptr && nodes != nullptr && nodes->is_integer() &&
        nodes->as_integer() < 1'000'000) {
      const std::int64_t each = tasks != nullptr && tasks->is_integer() ? tasks->as_integer() : 1;
      if (each > 0 && each < 1'000'000)
        set("SLURM_NTASKS", std::to_string(nodes->as_integer() * each), 0);
    }
    std::string gpus;
    for (const char* key : {"gpus_per_node", "gres", "gpus_per_task"})
      if (const Value* value = script_.directives.find(key); value != nullptr && gpus.empty()) {
        const std::string word = word_of(*value);
        gpus = word.substr(word.rfind(':') == std::string::npos ? 0 : word.rfind(':') + 1);
      }
    if (!gpus.empty() && gpus.find_first_not_of("0123456789") == std::string::npos) {
      set("SLURM_GPUS_ON_NODE", gpus, 0);
      set("SLURM_GPUS_PER_NODE", gpus, 0);
    }
    set("SLURM_PROCID", "0", 0);
    set("SLURM_NODEID", "0", 0);
  }

  // --- statements -----------------------------------------------------------------------------------

  bool taken() const {
    return std::all_of(branches_.begin(), branches_.end(),
                       [](const auto& branch) { return branch.taken; });
  }

  void statements() {
    while (at_ < text_.size()) {
      const std::size_t before = at_;
      statement();
      if (at_ == before) ++at_;
      if (commands_ > 20'000) return;
    }
  }

  struct IfBranch {
    bool taken = false;
    bool done = false;     // an earlier branch was it
    bool unknown = false;  // nobody knows
    bool loop = false;
  };

  void skip_blanks() {
    for (;;) {
      if (peek() == ' ' || peek() == '\t' || peek() == '\r') {
        ++at_;
      } else if (peek() == '\\' && (peek(1) == '\n' || (peek(1) == '\r' && peek(2) == '\n'))) {
        at_ += peek(1) == '\r' ? 3 : 2;
      } else {
        return;
      }
    }
  }
  char peek(std::size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }
  std::string_view rest() const { return text_.substr(std::min(at_, text_.size())); }
  bool keyword(std::string_view word) const {
    if (!rest().starts_with(word)) return false;
    const char next = peek(word.size());
    return next == '\0' || next == ' ' || next == '\n' || next == ';' || next == '\t' ||
           next == '\r';
  }
  void to_line_end() { at_ = std::min(text_.find('\n', at_), text_.size()); }

  void statement() {
    skip_blanks();
    const char c = peek();
    if (c == '\n') {
      ++at_;
      for (const Pending& pending : std::exchange(pending_, {})) here_document(pending);
      return;
    }
    if (c == ';' || c == '&' || c == '|' || c == '}' || c == '{' || c == ')' || c == '(') {
      if (c == '(' && peek(1) == '(') return arithmetic_statement();
      ++at_;
      return;
    }
    if (c == '#') return to_line_end();
    for (const std::string_view word : {"then", "do"})
      if (keyword(word)) {
        at_ += word.size();
        return;
      }
    if (keyword("if") || keyword("elif")) return condition(keyword("if"));
    if (keyword("else")) {
      at_ += 4;
      if (!branches_.empty()) {
        IfBranch& branch = branches_.back();
        branch.taken = !branch.done && !branch.unknown;
        branch.done = branch.done || branch.taken;
      }
      return;
    }
    if (keyword("fi") || keyword("done") || keyword("esac")) {
      at_ += peek() == 'f' ? 2 : 4;
      if (!branches_.empty()) branches_.pop_back();
      return;
    }
    for (const std::string_view word : {"for", "while", "until", "case", "select"})
      if (keyword(word)) {
        if (taken())
          note(at_, fmt::format("a `{}` is not followed", word), "what it does is not read");
        const bool is_case = word == "case";
        branches_.push_back({false, true, true, true});
        at_ += word.size();
        if (!is_case) {  // `for x in a b; do`
          while (at_ < text_.size() && peek() != '\n' && peek() != ';') ++at_;
        } else {
          to_line_end();
        }
        return;
      }
    command();
  }

  void arithmetic_statement() {
    const std::size_t end = text_.find("))", at_);
    at_ = end == std::string_view::npos ? text_.size() : end + 2;
  }

  // Words up to the end of the condition; the branch is taken when it is a constant that holds.
  void condition(bool opens) {
    const std::size_t from = at_;
    at_ += opens ? 2 : 4;
    skip_blanks();
    const bool live = opens ? taken() : !branches_.empty();
    std::optional<bool> holds;
    if (rest().starts_with("((")) {
      const std::size_t end = std::min(text_.find("))", at_), text_.size());
      const Letters letters = expanded_text(text_.substr(at_ + 2, end - at_ - 2), at_ + 2);
      if (!has_hole(letters.text))
        if (const auto value = arithmetic(letters.text, lookup())) holds = *value != 0;
      at_ = std::min(end + 2, text_.size());
    } else {
      std::vector<std::string> words;
      while (at_ < text_.size() && peek() != '\n' && peek() != ';') {
        const std::size_t before = at_;
        skip_blanks();
        if (peek() == '\n' || peek() == ';') break;
        if (peek() == '&' || peek() == '|' || peek() == '<' || peek() == '>' || peek() == '(' ||
            peek() == ')') {
          words.emplace_back(1, peek());
          ++at_;
          continue;
        }
        std::vector<Letters> word = expanded_word(true);
        std::string joined;
        for (const Letters& letters : word) joined += letters.text;
        words.push_back(std::move(joined));
        if (at_ == before) ++at_;
      }
      holds = test_of(words);
    }
    if (opens) branches_.push_back({});
    if (branches_.empty()) return;
    IfBranch& branch = branches_.back();
    branch.taken = false;
    if (!holds && live && !branch.done) {
      branch.unknown = true;
      note(from, "a condition that is not known here", "what it decides is not read");
    }
    if (holds && *holds && !branch.done && !branch.unknown) {
      branch.taken = true;
      branch.done = true;
    }
  }

  static std::optional<bool> test_of(std::vector<std::string> words) {
    if (words.size() >= 2 && (words.front() == "[" || words.front() == "[[")) {
      words.erase(words.begin());
      if (words.back() == "]" || words.back() == "]]") words.pop_back();
    } else if (words.size() > 1 && words.front() == "test") {
      words.erase(words.begin());
    } else {
      return std::nullopt;
    }
    bool negated = false;
    if (!words.empty() && words.front() == "!") {
      negated = true;
      words.erase(words.begin());
    }
    for (const std::string& word : words)
      if (has_hole(word)) return std::nullopt;
    std::optional<bool> holds;
    if (words.size() == 1) {
      holds = !words[0].empty();
    } else if (words.size() == 2 && words[0] == "-z") {
      holds = words[1].empty();
    } else if (words.size() == 2 && words[0] == "-n") {
      holds = !words[1].empty();
    } else if (words.size() == 3) {
      const std::string& sign = words[1];
      if (sign == "=" || sign == "==") holds = words[0] == words[2];
      if (sign == "!=") holds = words[0] != words[2];
      const Value a = typed_value(words[0]);
      const Value b = typed_value(words[2]);
      if (a.is_integer() && b.is_integer()) {
        const std::int64_t x = a.as_integer();
        const std::int64_t y = b.as_integer();
        if (sign == "-eq") holds = x == y;
        if (sign == "-ne") holds = x != y;
        if (sign == "-gt" || sign == ">") holds = x > y;
        if (sign == "-ge") holds = x >= y;
        if (sign == "-lt" || sign == "<") holds = x < y;
        if (sign == "-le") holds = x <= y;
      }
    }
    if (holds && negated) holds = !*holds;
    return holds;
  }

  // --- commands -------------------------------------------------------------------------------------

  struct Pending {  // a here-document whose text begins on the next line
    std::string end;
    bool expands = true;
    bool tabs = false;
    std::string file;
  };

  void command() {
    const bool live = taken();
    ++commands_;
    ShellCommand command;
    bool words_begun = false;
    bool exporting = false;
    std::vector<Pending> pending;
    std::string target;
    while (at_ < text_.size()) {
      skip_blanks();
      const char c = peek();
      if (c == '\n' || c == '\0' || c == ';' || c == '|' || c == ')') break;
      if (c == '&' && peek(1) != '>') break;
      if (c == '#') {
        to_line_end();
        break;
      }
      if (redirect(pending, target)) continue;
      if (!words_begun && assignment(live, exporting, command)) continue;
      const std::size_t before = at_;
      std::vector<Letters> words = expanded_word(false);
      if (at_ == before) {  // `(` of a subshell or function
        ++at_;
        continue;
      }
      for (const Letters& letters : words) {
        if (!words_begun && !exporting &&
            (letters.text == "export" || letters.text == "declare" || letters.text == "local" ||
             letters.text == "readonly")) {
          exporting = true;
          continue;
        }
        if (exporting) continue;
        words_begun = true;
        command.words.push_back(word_value(letters));
      }
    }
    for (Pending& one : pending) {
      one.file = target;
      pending_.push_back(one);
    }
    if (!live || command.words.empty()) return;
    given_ += exported_.size();
    if (given_ <= kMostGiven)
      for (const auto& [name, value] : exported_) command.environment.emplace(name, value);
    run(std::move(command));
  }

  // What a shell itself does with a command: eval, exec, bash -c.
  void run(ShellCommand command) {
    const std::string first = command.words.front().as_string();
    if ((first == "eval" || first == "exec" || first == "time" || first == "nohup") &&
        command.words.size() > 1) {
      command.words.erase(command.words.begin());
      if (first == "eval") {
        std::vector<ShellWord> split;
        for (const ShellWord& word : command.words) split_word(word, split);
        command.words = std::move(split);
      }
      if (!command.words.empty()) script_.commands.push_back(std::move(command));
      return;
    }
    script_.commands.push_back(std::move(command));
  }

  static void split_word(const ShellWord& word, std::vector<ShellWord>& into) {
    std::string_view text = word.as_string();
    while (!text.empty()) {
      const std::size_t from = text.find_first_not_of(" \t\n\\");
      if (from == std::string_view::npos) return;
      text.remove_prefix(from);
      const std::size_t end = std::min(text.find_first_of(" \t\n"), text.size());
      ShellWord part = Value::string(std::string(text.substr(0, end)));
      part.set_mark(word.mark());
      into.push_back(std::move(part));
      text.remove_prefix(end);
    }
  }

  ShellWord word_value(const Letters& letters) const {
    ShellWord word = Value::string(letters.text);
    word.set_mark(mark_of(letters.at.empty() ? at_ : letters.at.front(), letters.text.size()));
    return word;
  }

  // > file, 2>&1, <<EOF
  bool redirect(std::vector<Pending>& pending, std::string& target) {
    std::size_t digits = at_;
    while (digits < text_.size() && text_[digits] >= '0' && text_[digits] <= '9') ++digits;
    const char c = digits < text_.size() ? text_[digits] : '\0';
    if (c != '<' && c != '>' &&
        !(c == '&' && digits + 1 < text_.size() && text_[digits + 1] == '>'))
      return false;
    at_ = digits;
    if (rest().starts_with("<<") && !rest().starts_with("<<<")) {
      at_ += 2;
      Pending one;
      if (peek() == '-') {
        one.tabs = true;
        ++at_;
      }
      skip_blanks();
      one.expands = peek() != '\'' && peek() != '"' && peek() != '\\';
      for (const Letters& letters : expanded_word(true)) one.end += letters.text;
      pending.push_back(std::move(one));
      return true;
    }
    while (peek() == '<' || peek() == '>' || peek() == '&' || peek() == '|') ++at_;
    skip_blanks();
    if (peek() == '\n') return true;
    std::string file;
    for (const Letters& letters : expanded_word(true)) file += letters.text;
    if (c == '>') target = file;
    return true;
  }

  void here_document(const Pending& pending) {
    const std::size_t from = at_;
    std::size_t end = at_;
    while (end < text_.size()) {
      const std::size_t line_end = std::min(text_.find('\n', end), text_.size());
      std::string_view line = text_.substr(end, line_end - end);
      if (line.ends_with("\r")) line.remove_suffix(1);
      if (pending.tabs)
        while (line.starts_with("\t")) line.remove_prefix(1);
      if (line == pending.end) break;
      end = std::min(line_end + 1, text_.size());
    }
    const std::string_view body = text_.substr(from, end - from);
    const bool live = taken();
    std::string content(body);
    if (pending.expands && live) content = expanded_text(body, from).text;
    at_ = std::min(text_.find('\n', end), text_.size());
    if (!live || pending.file.empty()) return;
    Value file = Value::string(std::move(content));
    Mark mark;  // lines are counted within it
    mark.source = std::make_shared<Source>(
        Source{fmt::format("{} in {}", pending.file, source_->name), file.as_string(), 1});
    mark.line = 1;
    mark.column = 1;
    file.set_mark(std::move(mark));
    script_.files[pending.file] = std::move(file);
  }

  // NAME=value, NAME+=value, NAME=( ... ), and nothing else: then false.
  bool assignment(bool live, bool exporting, ShellCommand& command) {
    std::size_t end = at_;
    if (end >= text_.size() || !is_name_start(text_[end])) return false;
    while (end < text_.size() && is_name(text_[end])) ++end;
    const std::string name(text_.substr(at_, end - at_));
    bool adds = false;
    if (end < text_.size() && text_[end] == '+') {
      adds = true;
      ++end;
    }
    if (end >= text_.size() || text_[end] != '=') {
      if (exporting && live) {  // export NAME
        at_ = end;
        if (const auto found = variables_.find(name);
            found != variables_.end() && !found->second.items.empty())
          exported_[name] = word_value(found->second.items.front());
        return true;
      }
      return false;
    }
    at_ = end + 1;
    Variable value;
    if (peek() == '(') {
      value.array = true;
      ++at_;
      array_items(value.items);
    } else {
      value.items.emplace_back();
      for (Letters& letters : expanded_word(true)) {
        Letters& item = value.items.front();
        for (std::size_t i = 0; i < letters.text.size(); ++i)
          item.add(letters.text[i], letters.at[i], letters.quoted[i]);
      }
    }
    if (!live) return true;
    Variable& variable = variables_[name];
    if (!adds) {
      variable = std::move(value);
    } else if (value.array || variable.array) {
      variable.array = true;
      variable.items.insert(variable.items.end(), value.items.begin(), value.items.end());
    } else {
      if (variable.items.empty()) variable.items.emplace_back();
      Letters& item = variable.items.front();
      const Letters& more = value.items.front();
      for (std::size_t i = 0; i < more.text.size(); ++i)
        item.add(more.text[i], more.at[i], more.quoted[i]);
    }
    if (!variable.items.empty()) {
      const ShellWord word = word_value(variable.items.front());
      if (exporting) exported_[name] = word;
      command.environment[name] = word;
    }
    spend(variable);
    return true;
  }

  void spend(const Variable& variable) {
    for (const Letters& item : variable.items) spent_ += item.text.size();
  }

  void array_items(std::vector<Letters>& items) {
    while (at_ < text_.size()) {
      skip_blanks();
      if (peek() == '\n') {
        ++at_;
      } else if (peek() == '#') {
        to_line_end();
      } else if (peek() == ')') {
        ++at_;
        return;
      } else {
        const std::size_t before = at_;
        for (Letters& letters : expanded_word(false)) items.push_back(std::move(letters));
        if (at_ == before) ++at_;
      }
    }
  }

  // --- expansion ------------------------------------------------------------------------------------

  // One word of the script, which may become none or several. `whole`: it does not split.
  std::vector<Letters> expanded_word(bool whole) {
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
        expansion(words, false, whole, 0);
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

  void double_quoted(std::vector<Letters>& words) {
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
        expansion(words, true, true, 0);
      } else {
        // A later unquoted use of the variable splits at these.
        words.back().add(c, at_, c != ' ' && c != '\n' && c != '\t');
        ++at_;
      }
    }
    if (at_ < text_.size()) ++at_;
  }

  // Text of a here-document or an arithmetic expression: variables alone.
  Letters expanded_text(std::string_view text, std::size_t from) {
    const std::size_t back = at_;
    const std::size_t upto = from + text.size();
    at_ = from;
    std::vector<Letters> words(1);
    while (at_ < upto && spent_ < kMostLetters) {
      if (peek() == '$') {
        expansion(words, true, true, 0);
      } else if (peek() == '\\' && (peek(1) == '$' || peek(1) == '\\')) {
        words.back().add(peek(1), at_ + 1, true);
        at_ += 2;
      } else {
        words.back().add(peek(), at_, true);
        ++at_;
      }
    }
    at_ = back;
    Letters all;
    for (const Letters& word : words)
      for (std::size_t i = 0; i < word.text.size(); ++i) all.add(word.text[i], word.at[i], true);
    return all;
  }

  void hole(std::vector<Letters>& words, std::string_view name, std::size_t at) {
    for (const char c : fmt::format("${{{}}}", name)) words.back().add(c, at, true);
    spent_ += name.size();
  }

  Lookup lookup() const {
    return [this](std::string_view name) -> std::optional<std::string> {
      const auto found = variables_.find(name);
      if (found == variables_.end() || found->second.items.empty()) return std::nullopt;
      return found->second.items.front().text;
    };
  }

  // What begins with $ (or a back quote): a variable, a default, arithmetic, or a command's output.
  void expansion(std::vector<Letters>& words, bool quoted, bool whole, int depth) {
    const std::size_t from = at_;
    if (depth > kDeepestExpansion) {
      ++at_;
      return;
    }
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
      at_ = end + 2;
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
    if (rest().starts_with("${")) return braces(words, quoted, whole, depth);
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
  void braces(std::vector<Letters>& words, bool quoted, bool whole, int depth) {
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
        expansion(inner, true, true, depth + 1);
      } else {
        inner.back().add(peek(), at_, peek() != ' ' && peek() != '\n');
        ++at_;
      }
    }
    at_ = back;
    for (const Letters& word : inner)
      for (std::size_t i = 0; i < word.text.size(); ++i)
        letters.add(word.text[i], word.at[i], word.quoted[i]);
    if (inside.find('=') == skip - 1 && !name.empty()) variables_[name] = {{letters}, false};
    spread(words, letters, quoted || whole);
  }

  void put(std::vector<Letters>& words, const std::string& name, bool quoted, bool whole,
           std::size_t from) {
    const auto found = variables_.find(name);
    if (found == variables_.end()) return hole(words, name, from);
    if (found->second.items.empty()) return;
    spread(words, found->second.items.front(), quoted || whole);
  }

  void put_all(std::vector<Letters>& words, const std::string& name, std::size_t from) {
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
  void spread(std::vector<Letters>& words, const Letters& letters, bool whole) {
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

  std::shared_ptr<const Source> source_;
  std::string_view text_;
  std::vector<std::size_t> line_ends_;
  std::size_t at_ = 0;
  std::size_t spent_ = 0;
  bool complained_ = false;
  int commands_ = 0;
  std::map<std::string, Variable, std::less<>> variables_;
  std::map<std::string, Value, std::less<>> exported_;
  std::size_t given_ = 0;  // exported variables that commands were given
  std::vector<IfBranch> branches_;
  std::vector<Pending> pending_;
  ShellScript script_;
};

}  // namespace

bool has_hole(std::string_view word) { return word.find("${") != std::string_view::npos; }

ShellScript read_shell(std::string_view text, std::string_view source_name,
                       const ShellEnvironment& environment) {
  if (text.size() > kMostScript) {
    ShellScript script;
    script.problems.push_back(
        {Severity::kError,
         "E103",
         fmt::format("{} bytes of script, more than {} MiB", text.size(), kMostScript >> 20),
         Place{std::string(source_name), 0, 0, {}, 0},
         {},
         {}});
    return script;
  }
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  return ShellReader(text, source_name).read(environment);
}

}  // namespace steelyard
