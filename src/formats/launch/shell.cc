// Statements of a script: what follows what, loops, branches, and what both branches of an unknown condition agree about.
#include "formats/launch/shell.h"

#include <fmt/format.h>

#include "formats/launch/mapping.h"
#include "formats/launch/shell_reader.h"

namespace steelyard {
namespace {

constexpr std::size_t kMostScript = std::size_t{4} << 20;
constexpr int kMostCommands = 20'000;
constexpr int kDeepestRun = 600;                 // blocks that run inside of others
constexpr std::size_t kMostBranches = 512;       // of one if
constexpr int kMostTurns = 64;                   // of one loop
constexpr int kFewCommands = kMostCommands / 4;  // with more, loops end after one turn

}  // namespace

ShellScript ShellReader::read(std::string_view text) {
  for (const auto& [name, value] : context_.environment) given_names_.insert(name);
  Text& script = add_text(text, name_);
  enter(script);
  for (const auto& [name, value] : context_.environment) {
    const Text& given = add_text(word_of(value), fmt::format("--env {}", name));
    set(name, given.text, given.base);
    exported_.insert(name);
  }
  if (context_.arguments) {
    arguments_.emplace();
    for (const std::string& argument : *context_.arguments) {
      const Text& given =
          add_text(argument, fmt::format("word {} behind --", arguments_->size() + 1));
      Letters letters;
      for (std::size_t i = 0; i < argument.size(); ++i)
        letters.add(argument[i], given.base + i, argument[i] != ' ');
      arguments_->push_back(std::move(letters));
    }
  }
  read_directives(script);
  seed();
  run_text(script);
  for (const auto& [name, value] : files_.all()) script_.files[name] = *value;
  return std::move(script_);
}

ShellReader::Text& ShellReader::add_text(std::string_view text, std::string_view name) {
  Text& added = texts_.emplace_back();
  added.source = source_of(name, text);
  added.text = added.source->text;
  added.base = letters_;
  letters_ += added.text.size() + 1;
  for (std::size_t i = 0; i < added.text.size(); ++i)
    if (added.text[i] == '\n') added.line_ends.push_back(i);
  return added;
}

ShellReader::Text& ShellReader::add_text(const Letters& letters) {
  Text& added = texts_.emplace_back();
  added.own = letters.text;
  added.text = added.own;
  added.base = letters_;
  added.places = letters.at;
  // Its letters stand elsewhere: none is looked for here.
  added.source = texts_.front().source;
  spent_ += letters.text.size();
  return added;
}

void ShellReader::enter(const Text& text) {
  now_ = &text;
  text_ = text.text;
  at_ = 0;
}

ShellReader::Flow ShellReader::run_text(Text& text) {
  constexpr int kDeepestScript = 16;
  if (depth_ >= kDeepestScript) return Flow::kNext;
  ++depth_;
  const Text* before = now_;
  const std::size_t at = at_;
  enter(text);
  text.tree = parse_shell(text.text);
  Flow flow = Flow::kNext;
  if (text.tree.too_deep)
    refuse(place(text.tree.at), "nested more than 256 deep", "branches inside of branches");
  else
    flow = run(text.tree.statements);
  now_ = before;
  text_ = now_ == nullptr ? std::string_view() : now_->text;
  at_ = at;
  --depth_;
  return flow;
}

// Statements with && and || and | between them go together.
ShellReader::Flow ShellReader::run(const ShellBlock& block) {
  using Joint = ShellStatement::Joint;
  struct Leave {
    int& nested;
    ~Leave() { --nested; }
  } leave{++nested_};
  if (nested_ > kDeepestRun) {
    refuse(place(at_), fmt::format("nested more than {} deep", kDeepestRun),
           "functions and branches inside of others");
    return Flow::kExit;
  }
  std::size_t at = 0;
  while (at < block.size() && !refused_) {
    std::size_t upto = at + 1;
    while (upto < block.size() && block[upto].joint != Joint::kNext) ++upto;
    const Flow flow = run_joined(block, at, upto);
    if (flow != Flow::kNext) return flow;
    at = upto;
  }
  return Flow::kNext;
}

ShellReader::Flow ShellReader::run_joined(const ShellBlock& block, std::size_t from,
                                          std::size_t upto) {
  using Joint = ShellStatement::Joint;
  while (from < upto && !refused_) {
    std::size_t end = from + 1;
    while (end < upto && block[end].joint == Joint::kPipe) ++end;
    const Joint joint = block[from].joint;
    const bool waits = joint == Joint::kAnd || joint == Joint::kOr;
    const auto pipeline = [&, from, end] { return run_pipeline(block, from, end); };
    const bool wanted = joint != Joint::kOr;
    if (!waits) {
      if (const Flow flow = pipeline(); flow != Flow::kNext) return flow;
    } else if (!status_) {
      // A && B || C: one of the two.
      std::size_t behind = end;
      if (joint == Joint::kAnd && end < upto && block[end].joint == Joint::kOr)
        for (++behind; behind < upto && block[behind].joint == Joint::kPipe;) ++behind;
      const Flow flow = either(place(block[from].at), pipeline, [&, end, behind] {
        return behind > end ? run_pipeline(block, end, behind) : Flow::kNext;
      });
      end = behind;
      status_.reset();
      if (flow != Flow::kNext) return flow;
    } else if (*status_ == wanted) {
      const bool presumed = presumed_;
      const Flow flow = presumed ? presumably(pipeline, [] { return Flow::kNext; }) : pipeline();
      if (flow != Flow::kNext) return flow;
    }
    from = end;
  }
  return Flow::kNext;
}

ShellReader::Flow ShellReader::run_one(const ShellStatement& statement) {
  using Kind = ShellStatement::Kind;
  if (++commands_ > kMostCommands) {
    refuse(place(statement.at), fmt::format("more than {} commands", kMostCommands),
           "one too many");
    return Flow::kExit;
  }
  switch (statement.kind) {
    case Kind::kIf:
      return run_if(statement, 0);
    case Kind::kFor:
      return run_for(statement);
    case Kind::kForCount:
      return run_for_count(statement);
    case Kind::kWhile:
    case Kind::kUntil:
      return run_while(statement);
    case Kind::kCase:
      return run_case(statement);
    case Kind::kGroup:
      return statement.blocks.empty() ? Flow::kNext : run(statement.blocks.front());
    case Kind::kSubshell:
      return statement.blocks.empty() ? Flow::kNext : run_subshell(statement.blocks.front());
    case Kind::kFunction:
      if (!statement.blocks.empty())
        functions_[std::string(statement.name.of(text_))] = {now_, &statement.blocks.front()};
      return Flow::kNext;
    case Kind::kTest:
      say(test(words_of_test(statement)));
      return Flow::kNext;
    case Kind::kArithmetic:
      arithmetic_statement(statement.name);
      return Flow::kNext;
    case Kind::kCommand:
      break;
  }
  return Flow::kNext;
}

// `branch`: which condition comes first; behind the last stands what else does.
ShellReader::Flow ShellReader::run_if(const ShellStatement& statement, std::size_t branch) {
  const auto& blocks = statement.blocks;
  const std::size_t condition = 2 * branch;
  if (condition >= blocks.size()) return Flow::kNext;
  if (branch > kMostBranches) {
    refuse(place(statement.at), fmt::format("more than {} branches", kMostBranches), "of one if");
    return Flow::kExit;
  }
  if (condition + 1 == blocks.size()) return run(blocks[condition]);
  cause_.clear();
  if (const Flow flow = run(blocks[condition]); flow != Flow::kNext) return flow;
  const int holds = external_ || !status_ ? -1 : *status_ ? 1 : 0;
  const bool presumed = presumed_;
  const Way yes = [&] { return run(blocks[condition + 1]); };
  const Way no = [&] { return run_if(statement, branch + 1); };
  if (holds < 0) return either(place(statement.at), yes, no);
  if (presumed) return holds == 1 ? presumably(yes, no) : presumably(no, yes);
  return holds == 1 ? yes() : no();
}

ShellReader::Flow ShellReader::turn(const ShellBlock& body, bool& goes_on) {
  const Flow flow = run(body);
  goes_on = flow == Flow::kNext || flow == Flow::kContinue;
  return flow == Flow::kReturn || flow == Flow::kExit ? flow : Flow::kNext;
}

ShellReader::Flow ShellReader::run_for(const ShellStatement& statement) {
  if (statement.blocks.empty()) return Flow::kNext;
  const std::string name(statement.name.of(text_));
  std::vector<Letters> values;
  for (const ShellPart& part : statement.parts)
    for (Letters& word : expanded(part.span, false)) values.push_back(std::move(word));
  if (!statement.lists && arguments_) values = *arguments_;
  if (values.empty() && !statement.parts.empty() && arguments_) return Flow::kNext;
  if (values.empty() || (values.size() == 1 && !only_hole(values[0].text).empty())) {
    bool goes_on = true;
    assign_hole(name, {"", "a loop's value that is not known here"}, place(statement.at));
    return turn(statement.blocks.front(), goes_on);
  }
  int turns = 0;
  for (Letters& value : values) {
    if (++turns > kMostTurns || (turns > 1 && commands_ > kFewCommands)) break;
    assign(name, {{std::move(value)}, false, {}});
    bool goes_on = true;
    if (const Flow flow = turn(statement.blocks.front(), goes_on); flow != Flow::kNext) return flow;
    if (!goes_on || refused_) break;
  }
  return Flow::kNext;
}

// for ((i = 0; i < N; i++)): its first turn.
ShellReader::Flow ShellReader::run_for_count(const ShellStatement& statement) {
  if (statement.blocks.empty()) return Flow::kNext;
  const std::string_view text = statement.name.of(text_);
  arithmetic_statement(
      {statement.name.from, statement.name.from + std::min(text.find(';'), text.size())});
  bool goes_on = true;
  return turn(statement.blocks.front(), goes_on);
}

ShellReader::Flow ShellReader::run_while(const ShellStatement& statement) {
  if (statement.blocks.size() < 2) return Flow::kNext;
  const bool wanted = statement.kind == ShellStatement::Kind::kWhile;
  for (int turns = 0; turns < kMostTurns && !refused_; ++turns) {
    if (turns > 1 && commands_ > kFewCommands) break;
    cause_.clear();
    if (const Flow flow = run(statement.blocks[0]); flow != Flow::kNext) return flow;
    const int holds = external_ || !status_ ? -1 : *status_ ? 1 : 0;
    bool goes_on = true;
    if (holds < 0) {
      // Arguments that nobody gave are none.
      if (turns > 0 || cause_ == "#") return Flow::kNext;
      return either(
          place(statement.at), [&] { return turn(statement.blocks[1], goes_on); },
          [] { return Flow::kNext; });
    }
    if ((holds == 1) != wanted) return Flow::kNext;
    if (const Flow flow = turn(statement.blocks[1], goes_on); flow != Flow::kNext) return flow;
    if (!goes_on) return Flow::kNext;
  }
  return Flow::kNext;
}

ShellReader::Flow ShellReader::run_subshell(const ShellBlock& block) {
  variables_.begin();
  const Flow flow = run(block);
  variables_.take_back();
  return flow == Flow::kExit && !refused_ ? Flow::kNext : flow;
}

std::string_view only_hole(std::string_view word) {
  if (!word.starts_with("${") || word.find('}') != word.size() - 1) return {};
  return word.substr(2, word.size() - 3);
}

bool has_hole(std::string_view word) { return word.find("${") != std::string_view::npos; }

ShellScript read_shell(std::string_view text, std::string_view source_name,
                       const ShellContext& context) {
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
  return ShellReader(source_name, context).read(text);
}

}  // namespace steelyard
