// What a test says where it is known: [ ... ], [[ ... ]], (( ... )), and the patterns of a case.
#include <fmt/format.h>

#include "formats/launch/mapping.h"
#include "formats/launch/shell_reader.h"

namespace steelyard {
namespace {

constexpr int kDeepestTest = 32;

// * ? and [...] of a pattern; bounded, since only the last star is ever tried again.
bool matches(std::string_view pattern, std::string_view text) {
  std::size_t p = 0;
  std::size_t t = 0;
  std::size_t star = std::string_view::npos;
  std::size_t behind = 0;
  const auto fits = [&](std::size_t& next) {
    if (pattern[p] == '?') return next = p + 1, true;
    if (pattern[p] == '[') {
      const std::size_t close = pattern.find(']', p + 2);
      if (close != std::string_view::npos) {
        next = close + 1;
        bool within = false;
        for (std::size_t i = p + 1; i < close; ++i)
          if (i + 2 < close && pattern[i + 1] == '-') {
            within = within || (text[t] >= pattern[i] && text[t] <= pattern[i + 2]);
            i += 2;
          } else {
            within = within || text[t] == pattern[i];
          }
        return within;
      }
    }
    next = p + 1;
    return pattern[p] == text[t];
  };
  while (t < text.size()) {
    std::size_t next = 0;
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      behind = t;
    } else if (p < pattern.size() && fits(next)) {
      p = next;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++behind;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

bool is_sign(std::string_view word) {
  for (const std::string_view sign :
       {"=", "==", "!=", "-eq", "-ne", "-gt", "-ge", "-lt", "-le", "<", ">", "=~"})
    if (word == sign) return true;
  return false;
}

}  // namespace

void ShellReader::say(const Truth& truth) {
  status_ = truth.holds;
  presumed_ = truth.presumed;
  external_ = false;
}

std::vector<std::string> ShellReader::words_of_test(const ShellStatement& statement) {
  std::vector<std::string> words;
  for (const ShellPart& part : statement.parts) {
    if (part.kind != ShellPart::Kind::kWord) continue;
    const std::string_view written = part.span.of(text_);
    const bool operation = written == "&&" || written == "||" || written == "(" || written == ")" ||
                           written == "<" || written == ">";
    words.push_back(operation ? std::string(written) : expanded_whole(part.span).text);
  }
  return words;
}

ShellReader::Truth ShellReader::test(const std::vector<std::string>& words) {
  std::size_t at = 0;
  return alternatives(words, at, 0);
}

ShellReader::Truth ShellReader::alternatives(const std::vector<std::string>& words, std::size_t& at,
                                             int depth) {
  Truth truth = conjunction(words, at, depth);
  while (at < words.size() && (words[at] == "||" || words[at] == "-o")) {
    ++at;
    const Truth other = conjunction(words, at, depth);
    truth.presumed = truth.presumed || other.presumed;
    // What decides alone decides, whatever the other is.
    if (truth.holds == true || other.holds == true)
      truth.holds = true;
    else if (!truth.holds || !other.holds)
      truth.holds.reset();
  }
  return truth;
}

ShellReader::Truth ShellReader::conjunction(const std::vector<std::string>& words, std::size_t& at,
                                            int depth) {
  Truth truth = single(words, at, depth);
  while (at < words.size() && (words[at] == "&&" || words[at] == "-a")) {
    ++at;
    const Truth other = single(words, at, depth);
    truth.presumed = truth.presumed || other.presumed;
    if (truth.holds == false || other.holds == false)
      truth.holds = false;
    else if (!truth.holds || !other.holds)
      truth.holds.reset();
  }
  return truth;
}

ShellReader::Truth ShellReader::single(const std::vector<std::string>& words, std::size_t& at,
                                       int depth) {
  if (depth > kDeepestTest) {
    at = words.size();
    return {};
  }
  if (at < words.size() && words[at] == "!") {
    Truth truth = single(words, ++at, depth + 1);
    if (truth.holds) truth.holds = !*truth.holds;
    return truth;
  }
  if (at < words.size() && words[at] == "(") {
    const Truth truth = alternatives(words, ++at, depth + 1);
    if (at < words.size() && words[at] == ")") ++at;
    return truth;
  }
  std::vector<std::string> mine;
  while (at < words.size() && words[at] != "&&" && words[at] != "||" && words[at] != ")" &&
         !(mine.size() > 1 && (words[at] == "-a" || words[at] == "-o")))
    mine.push_back(words[at++]);
  return primary(mine);
}

// Nobody sets it: neither the script nor the user, and it is no output of something.
bool ShellReader::is_unset(std::string_view name) const {
  return !name.empty() && variables_.find(name) == nullptr &&
         script_.holes.find(name) == script_.holes.end() && name != "command" &&
         name != "arithmetic" && name != "expression" && name != "?" && name != "$" && name != "!";
}

// -z and -n, of what nobody sets: as if nobody did.
ShellReader::Truth ShellReader::of_unset(const std::vector<std::string>& words) const {
  const auto unset = [&](const std::string& word) { return is_unset(only_hole(word)); };
  if (words.size() == 1 && unset(words[0])) return {false, true};
  if (words.size() == 2 && unset(words[1])) {
    if (words[0] == "-z") return {true, true};
    if (words[0] == "-n") return {false, true};
  }
  if (words.size() == 3 && (words[2].empty() || words[0].empty())) {
    const std::string& other = words[0].empty() ? words[2] : words[0];
    if (unset(other) && (words[1] == "=" || words[1] == "==")) return {true, true};
    if (unset(other) && words[1] == "!=") return {false, true};
  }
  return {};
}

ShellReader::Truth ShellReader::primary(const std::vector<std::string>& words) {
  if (const Truth truth = of_unset(words); truth.holds) return truth;
  if (words.size() == 2 && words[0] == "-v") {
    if (variables_.find(words[1])) return {true, false};
    return is_unset(words[1]) ? Truth{false, true} : Truth{};
  }
  for (const std::string& word : words)
    if (const std::size_t hole = word.find("${"); hole != std::string::npos) {
      const std::size_t end = word.find('}', hole);
      if (end == std::string::npos) continue;
      cause_ = word.substr(hole + 2, end - hole - 2);
      if (const auto found = script_.holes.find(cause_); found != script_.holes.end())
        if (!found->second.cause.empty()) cause_ = found->second.cause;
      return {};
    }
  if (words.size() == 1) return {!words[0].empty(), false};
  if (words.size() == 2) {
    if (words[0] == "-z") return {words[1].empty(), false};
    if (words[0] == "-n") return {!words[1].empty(), false};
    if (words[0].size() == 2 && std::string_view("fesrx").find(words[0][1]) != std::string::npos &&
        words[0][0] == '-' && files_.find(words[1]))
      return {true, false};
    return {};
  }
  if (words.size() != 3 || !is_sign(words[1])) return {};
  const std::string& sign = words[1];
  if (sign == "=" || sign == "==") return {matches(words[2], words[0]), false};
  if (sign == "!=") return {!matches(words[2], words[0]), false};
  const Value a = typed_value(words[0]);
  const Value b = typed_value(words[2]);
  if (!a.is_integer() || !b.is_integer()) return {};
  const std::int64_t x = a.as_integer();
  const std::int64_t y = b.as_integer();
  if (sign == "-eq") return {x == y, false};
  if (sign == "-ne") return {x != y, false};
  if (sign == "-gt" || sign == ">") return {x > y, false};
  if (sign == "-ge") return {x >= y, false};
  if (sign == "-lt" || sign == "<") return {x < y, false};
  if (sign == "-le") return {x <= y, false};
  return {};
}

// (( N * 2 > M )), (( N += 1 )), (( i++ )), let N=M*2
void ShellReader::arithmetic_statement(const ShellSpan& span) {
  const Letters letters = expanded_text(span.of(text_), span.from);
  std::string_view text = letters.text;
  while (text.starts_with(" ")) text.remove_prefix(1);
  std::size_t end = 0;
  while (end < text.size() && is_name(text[end])) ++end;
  const std::string name(text.substr(0, end));
  std::string_view rest = text.substr(end);
  while (rest.starts_with(" ")) rest.remove_prefix(1);
  external_ = false;
  presumed_ = false;
  status_.reset();
  std::string expression;
  if (rest.starts_with("++") || rest.starts_with("--"))
    expression = name + (rest[0] == '+' ? "+1" : "-1");
  else if (rest.starts_with("=") && !rest.starts_with("=="))
    expression = rest.substr(1);
  else if (rest.size() > 1 && rest[1] == '=' &&
           std::string_view("+-*/%").find(rest[0]) != std::string_view::npos)
    expression = fmt::format("{}{}({})", name, rest[0], rest.substr(2));
  const bool assigns = !expression.empty() && !name.empty() && is_name_start(name[0]);
  std::optional<std::int64_t> value;
  if (!has_hole(letters.text))
    value = arithmetic(assigns ? std::string_view(expression) : text, lookup());
  if (assigns && value.has_value())
    set(name, std::to_string(value.value_or(0)), place(span.from));
  else if (assigns)
    assign_hole(name, {cause_, "a sum that is not known here"}, place(span.from));
  else if (value.has_value())
    status_ = value.value_or(0) != 0;
}

ShellReader::Flow ShellReader::run_case(const ShellStatement& statement) {
  if (statement.parts.empty()) return Flow::kNext;
  const std::string word = expanded_whole(statement.parts.front().span).text;
  const std::size_t count = std::min(statement.patterns.size(), statement.blocks.size());
  cause_.clear();
  const Truth known = primary({word, "=", word});
  if (known.holds) {
    for (std::size_t i = 0; i < count; ++i)
      for (const ShellSpan& span : statement.patterns[i])
        if (matches(expanded_whole(span).text, word)) return run(statement.blocks[i]);
    return Flow::kNext;
  }
  // Each of them may be it; where none is any word, it may be none of them, which such scripts do not mean.
  const std::function<Flow(std::size_t)> from = [&](std::size_t i) -> Flow {
    const Way mine = [&, i] { return run(statement.blocks[i]); };
    if (i + 1 == count) return mine();
    return either(place(statement.at), mine, [&, i] { return from(i + 1); });
  };
  constexpr std::size_t kMostChoices = 64;
  if (count == 0 || count > kMostChoices) return Flow::kNext;
  return from(0);
}

}  // namespace steelyard
