// Statements of a script, and conditions that are constants. Nothing is executed.
#include "formats/launch/shell.h"

#include <fmt/format.h>

#include "formats/launch/mapping.h"
#include "formats/launch/shell_reader.h"

namespace steelyard {
namespace {

constexpr std::size_t kMostScript = std::size_t{4} << 20;
constexpr std::size_t kDeepestBranch = 256;
constexpr int kMostCommands = 20'000;

}  // namespace

bool ShellReader::taken() const {
  return std::all_of(branches_.begin(), branches_.end(),
                     [](const auto& branch) { return branch.taken; });
}

void ShellReader::statements() {
  while (at_ < text_.size() && !refused_) {
    const std::size_t before = at_;
    statement();
    if (branches_.size() > kDeepestBranch)
      refuse(before, fmt::format("nested more than {} deep", kDeepestBranch),
             "branches inside of branches");
    if (at_ == before) ++at_;
    if (commands_ > kMostCommands)
      refuse(before, fmt::format("more than {} commands", kMostCommands), "one too many");
  }
}

void ShellReader::skip_blanks() {
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

char ShellReader::peek(std::size_t ahead) const {
  return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
}

bool ShellReader::keyword(std::string_view word) const {
  if (!rest().starts_with(word)) return false;
  const char next = peek(word.size());
  return next == '\0' || next == ' ' || next == '\n' || next == ';' || next == '\t' || next == '\r';
}

void ShellReader::statement() {
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

void ShellReader::arithmetic_statement() {
  const std::size_t end = text_.find("))", at_);
  at_ = end == std::string_view::npos ? text_.size() : end + 2;
}

// Words up to the end of the condition; the branch is taken when it is a constant that holds.
void ShellReader::condition(bool opens) {
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
    at_ = refused_ ? text_.size() : std::min(end + 2, text_.size());
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
    holds = list_of(words);
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

// [[ a ]] || [[ b ]] && [[ c ]], from left to right; also inside one pair of brackets.
std::optional<bool> ShellReader::list_of(const std::vector<std::string>& words) {
  std::optional<bool> holds;
  std::string sign;     // what joins the next test to those before
  std::string bracket;  // of a test that goes on behind the sign
  std::vector<std::string> test;
  const auto join = [&] {
    if (!bracket.empty()) test.insert(test.begin(), bracket);
    bracket = !test.empty() && (test.front() == "[" || test.front() == "[[") &&
                      test.back() != "]" && test.back() != "]]"
                  ? test.front()
                  : "";
    const std::optional<bool> next = test_of(std::exchange(test, {}));
    // What decides alone decides, whatever the other is.
    const bool decisive = sign == "|";
    if (sign.empty())
      holds = next;
    else if (holds == decisive || next == decisive)
      holds = decisive;
    else if (!holds || !next)
      holds = std::nullopt;
    else
      holds = !decisive;
  };
  for (std::size_t i = 0; i < words.size(); ++i) {
    const bool joint = (words[i] == "|" || words[i] == "&") && i + 1 < words.size() &&
                       words[i + 1] == words[i] && !test.empty();
    if (!joint) {
      test.push_back(words[i]);
      continue;
    }
    join();
    sign = words[i++];
  }
  join();
  return holds;
}

std::optional<bool> ShellReader::test_of(std::vector<std::string> words) {
  if (words.size() > 1 && words[0] == "!" && (words[1] == "[" || words[1] == "[[")) {
    words.erase(words.begin());
    const std::optional<bool> other = test_of(std::move(words));
    return other ? std::optional(!*other) : std::nullopt;
  }
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
