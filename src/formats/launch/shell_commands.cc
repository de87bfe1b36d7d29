// One command of a script: its words, where they go, and what it assigns.
#include <fmt/format.h>

#include "formats/launch/mapping.h"
#include "formats/launch/shell_reader.h"

namespace steelyard {
namespace {

constexpr std::size_t kMostGiven = std::size_t{8}
                                   << 20;    // letters of exported variables, over all commands
constexpr std::size_t kLettersOfEntry = 64;  // what a variable takes beside its letters

bool is_declaration(std::string_view word) {
  return word == "export" || word == "declare" || word == "local" || word == "readonly" ||
         word == "typeset";
}

}  // namespace

ShellReader::Flow ShellReader::run_pipeline(const ShellBlock& block, std::size_t from,
                                            std::size_t upto) {
  Output output;
  for (std::size_t i = from; i < upto && !refused_; ++i) {
    const ShellStatement& statement = block[i];
    Output input = std::move(output);
    output.reset();
    const Flow flow = statement.kind == ShellStatement::Kind::kCommand
                          ? (++commands_, run_command(statement, input, output))
                          : run_one(statement);
    if (statement.negated && status_) status_ = !*status_;
    if (flow != Flow::kNext && upto == from + 1) return flow;
  }
  return Flow::kNext;
}

ShellReader::Parts ShellReader::parts_of(const ShellStatement& statement, const Output& input) {
  using Kind = ShellPart::Kind;
  Parts parts;
  parts.input = input;
  for (const ShellPart& part : statement.parts) {
    switch (part.kind) {
      case Kind::kWord:
        for (Letters& word : expanded(part.span, false)) parts.words.push_back(std::move(word));
        break;
      case Kind::kAssignment:
        parts.assignments.push_back(&part);
        break;
      case Kind::kInput:
        parts.has_input = true;
        parts.input = file_content(expanded_whole(part.span));
        break;
      case Kind::kHereText:
        parts.has_input = true;
        parts.input = expanded_whole(part.span);
        break;
      case Kind::kHereDocument: {
        const ShellDocument& document = now_->tree.documents[part.document];
        const std::string_view body = document.body.of(text_);
        parts.has_input = true;
        parts.here_document = true;
        if (document.expands) {
          parts.input = expanded_text(body, document.body.from);
        } else {
          Letters letters;
          for (std::size_t i = 0; i < body.size(); ++i)
            letters.add(body[i], place(document.body.from + i), true);
          parts.input = std::move(letters);
        }
        break;
      }
      case Kind::kOutput:
      case Kind::kAppend:
        if (!part.silent)
          parts.outputs.emplace_back(expanded_whole(part.span).text, part.kind == Kind::kAppend);
        break;
    }
  }
  return parts;
}

ShellReader::Flow ShellReader::run_command(const ShellStatement& statement, const Output& input,
                                           Output& output) {
  if (commands_ > 20'000) {
    refuse(place(statement.at), "more than 20000 commands", "one too many");
    return Flow::kExit;
  }
  Parts parts = parts_of(statement, input);
  if (refused_) return Flow::kExit;
  status_ = true;
  external_ = false;
  presumed_ = false;
  if (parts.words.empty() || is_declaration(parts.words.front().text)) {
    const bool exporting = !parts.words.empty() && parts.words.front().text == "export";
    for (const ShellPart* part : parts.assignments) assign(*part, exporting);
    for (std::size_t i = 1; exporting && i < parts.words.size(); ++i)
      export_variable(parts.words[i].text);
    if (parts.words.empty()) write(parts, parts.input);
    return Flow::kNext;
  }
  // NAME=value before a command is the command's.
  if (parts.assignments.empty()) return run_words(statement, parts, output);
  variables_.begin();
  const auto exported = exported_;
  for (const ShellPart* part : parts.assignments) assign(*part, true);
  const Flow flow = run_words(statement, parts, output);
  exported_ = exported;
  auto changes = variables_.take_back();
  for (const ShellPart* part : parts.assignments) changes.erase(std::string(part->name.of(text_)));
  for (const auto& [name, value] : changes) variables_.set(name, value);
  return flow;
}

ShellReader::Flow ShellReader::run_words(const ShellStatement& statement, Parts& parts,
                                         Output& output) {
  // What a shell does before it starts a program, and what starts another in its own place.
  for (;;) {
    if (parts.words.empty()) return Flow::kNext;
    const std::string& first = parts.words.front().text;
    if (first != "exec" && first != "time" && first != "nohup" && first != "command" &&
        first != "sudo" && first != "builtin")
      break;
    if (first == "command" && parts.words.size() > 1 && parts.words[1].text.starts_with("-")) {
      external_ = true;
      return Flow::kNext;
    }
    parts.words.erase(parts.words.begin());
    while (!parts.words.empty() && parts.words.front().text.starts_with("-"))
      parts.words.erase(parts.words.begin());
  }
  if (const auto flow = run_builtin(statement, parts, output)) return *flow;
  if (const auto found = functions_.find(parts.words.front().text); found != functions_.end())
    return run_function(parts.words.front().text, parts);
  external_ = true;
  if (parts.words.front().text == "cd" || parts.words.front().text == "pushd") change_folder(parts);
  const bool filters = run_filter(parts, output);
  write(parts, output);
  if (filters && parts.words.front().text != "echo") return Flow::kNext;
  if (run_child(parts.words, parts.input, place(statement.at))) return Flow::kNext;
  push(std::move(parts.words), place(statement.at));
  return Flow::kNext;
}

std::optional<ShellReader::Flow> ShellReader::run_flow(const std::string& first,
                                                       const Parts& parts) {
  if (first == "exit") return Flow::kExit;
  if (first == "return") return Flow::kReturn;
  if (first == "break") return Flow::kBreak;
  if (first == "continue") return Flow::kContinue;
  if (first == "true" || first == ":") return Flow::kNext;
  if (first == "false") {
    status_ = false;
    return Flow::kNext;
  }
  if (first == "shift") {
    if (!arguments_) return Flow::kNext;
    const Value count = typed_value(parts.words.size() > 1 ? parts.words[1].text : "1");
    const std::int64_t many =
        std::clamp<std::int64_t>(count.is_integer() ? count.as_integer() : 1, 0,
                                 static_cast<std::int64_t>(arguments_->size()));
    arguments_->erase(arguments_->begin(), arguments_->begin() + static_cast<std::ptrdiff_t>(many));
    return Flow::kNext;
  }
  if (first == "set") {
    if (parts.words.size() > 1 && parts.words[1].text == "--")
      arguments_ = std::vector<Letters>(parts.words.begin() + 2, parts.words.end());
    return Flow::kNext;
  }
  return std::nullopt;
}

std::optional<ShellReader::Flow> ShellReader::run_builtin(const ShellStatement& statement,
                                                          Parts& parts, Output& output) {
  const std::string first = parts.words.front().text;
  if (const auto flow = run_flow(first, parts)) return flow;
  if (first == "[" || first == "test") {
    // Its words, each whole: an unset variable does not vanish.
    std::vector<std::string> words = words_of_test(statement);
    if (!words.empty()) words.erase(words.begin());
    if (first == "[" && !words.empty() && words.back() == "]") words.pop_back();
    say(test(words));
    return Flow::kNext;
  }
  if (first == "let" && parts.words.size() > 1) {
    const Text& text = add_text(parts.words[1]);
    const Text* before = now_;
    const std::size_t at = at_;
    enter(text);
    arithmetic_statement({0, text.text.size()});
    enter(*before);
    at_ = at;
    return Flow::kNext;
  }
  if (first == "eval") {
    Letters joined;
    for (std::size_t i = 1; i < parts.words.size(); ++i) {
      if (i > 1) joined.add(' ', parts.words[i].at.empty() ? 0 : parts.words[i].at.front(), false);
      joined.add(parts.words[i]);
    }
    return run_text(add_text(joined));
  }
  if (first == "source" || first == ".") return include(parts);
  if (first == "unset") {
    for (std::size_t i = 1; i < parts.words.size(); ++i) {
      variables_.set(parts.words[i].text, nullptr);
      exported_.erase(parts.words[i].text);
    }
    return Flow::kNext;
  }
  if (first == "read" || first == "mapfile" || first == "readarray" || first == "getopts") {
    status_.reset();
    if (first == "read" && read_variables(parts)) return Flow::kNext;
    cause_ = first == "getopts" && !arguments_ ? "#" : "";
    for (std::size_t i = first == "getopts" ? 2 : 1; i < parts.words.size(); ++i)
      if (!parts.words[i].text.empty() && is_name_start(parts.words[i].text[0]))
        assign_hole(parts.words[i].text, {"", "read when the script runs"}, place(statement.at));
    return Flow::kNext;
  }
  (void)output;
  return std::nullopt;
}

ShellReader::Flow ShellReader::run_function(const std::string& name, const Parts& parts) {
  constexpr int kDeepestFunction = 24;
  if (depth_ >= kDeepestFunction) return Flow::kNext;
  const Function function = functions_.find(name)->second;
  auto arguments =
      std::exchange(arguments_, std::vector<Letters>(parts.words.begin() + 1, parts.words.end()));
  ++depth_;
  const Text* before = now_;
  const std::size_t at = at_;
  enter(*function.text);
  Flow flow = run(*function.body);
  enter(*before);
  at_ = at;
  --depth_;
  arguments_ = std::move(arguments);
  return flow == Flow::kExit ? flow : Flow::kNext;
}

void ShellReader::assign(const ShellPart& part, bool exporting) {
  const std::string name(part.name.of(text_));
  ShellVariable value;
  value.array = part.array;
  if (part.array) {
    for (const ShellSpan& item : part.items)
      for (Letters& word : expanded(item, false)) value.items.push_back(std::move(word));
  } else {
    value.items.push_back(expanded_whole(part.span));
  }
  if (part.span.from > part.name.upto + 2) return;  // an element of an array
  const std::string& text = value.items.empty() ? std::string() : value.items.front().text;
  if (const std::string_view hole = only_hole(text);
      !value.array && !part.adds &&
      (hole == "command" || hole == "arithmetic" || hole == "expression")) {
    // Named by the variable, so that a person can say it.
    assign_hole(name,
                {hole == "arithmetic" ? cause_ : std::string(),
                 hole == "command" ? "what a command prints" : "a sum that is not known here"},
                place(part.span.from));
  } else if (part.adds) {
    const auto before = variables_.find(name);
    ShellVariable whole = before ? *before : ShellVariable{};
    if (value.array || whole.array) {
      whole.array = true;
      whole.items.insert(whole.items.end(), value.items.begin(), value.items.end());
    } else {
      if (whole.items.empty()) whole.items.emplace_back();
      whole.items.front().add(value.items.front());
    }
    spend(whole);
    variables_.set(name, std::make_shared<const ShellVariable>(std::move(whole)));
  } else {
    assign(name, std::move(value));
  }
  if (exporting) exported_.insert(name);
}

void ShellReader::assign(const std::string& name, ShellVariable value) {
  // A value of the user's own stands where the script's is not known.
  if (given_names_.count(name) > 0 && !value.items.empty() && has_hole(value.items.front().text) &&
      variables_.find(name))
    return;
  spend(value);
  variables_.set(name, std::make_shared<const ShellVariable>(std::move(value)));
}

void ShellReader::assign_hole(const std::string& name, ShellHole why, std::size_t at) {
  if (given_names_.count(name) > 0) return;
  Letters letters;
  for (const char c : fmt::format("${{{}}}", name)) letters.add(c, at, true);
  if (why.cause == name) why.cause.clear();
  if (const auto found = script_.holes.find(why.cause);
      found != script_.holes.end() && !found->second.cause.empty())
    why.cause = found->second.cause;
  script_.holes.insert_or_assign(name, std::move(why));
  assign(name, {{std::move(letters)}, false, {}});
}

void ShellReader::set(const std::string& name, std::string_view text, std::size_t place) {
  if (given_names_.count(name) > 0 && variables_.find(name)) return;
  Letters letters;
  for (const char c : text) letters.add(c, place, c != ' ' && c != '\n');
  variables_.set(
      name, std::make_shared<const ShellVariable>(ShellVariable{{std::move(letters)}, false, {}}));
}

void ShellReader::export_variable(const std::string& name) { exported_.insert(name); }

void ShellReader::spend(const ShellVariable& variable) {
  for (const Letters& item : variable.items) spent_ += item.text.size();
}

// Whether another command is given what is exported: each has it all, and so many commands of a long script take gigabytes.
bool ShellReader::give(std::size_t at) {
  for (const std::string& name : exported_)
    if (const auto value = variables_.find(name); value && !value->items.empty())
      given_ += name.size() + value->items.front().text.size() + kLettersOfEntry;
  if (given_ <= kMostGiven) return true;
  refuse(at, "exported variables that grow beyond reason",
         fmt::format("more than {} MiB over all commands", kMostGiven >> 20));
  return false;
}

void ShellReader::push(std::vector<Letters> words, std::size_t at) {
  if (words.empty() || !give(at)) return;
  ShellCommand command;
  for (const std::string& name : exported_)
    if (const auto value = variables_.find(name); value && !value->items.empty())
      command.environment.emplace(name, word_value(value->items.front()));
  for (const Letters& word : prefix_) command.words.push_back(word_value(word));
  for (const Letters& word : words) command.words.push_back(word_value(word));
  if (!conditions_.empty()) command.condition = mark_of(conditions_.back(), 1).place();
  script_.commands.push_back(std::move(command));
}

ShellWord ShellReader::word_value(const Letters& letters) const {
  ShellWord word = Value::string(letters.text);
  word.set_mark(mark_of(letters.at.empty() ? place(at_) : letters.at.front(), letters.text.size()));
  return word;
}

}  // namespace steelyard
