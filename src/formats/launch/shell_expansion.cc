// What a word becomes: quotes, variables with their defaults, arrays, arithmetic; what nobody knows stays ${NAME}.
#include <fmt/format.h>

#include "formats/launch/mapping.h"
#include "formats/launch/shell_reader.h"

namespace steelyard {
namespace {

constexpr std::size_t kMostLetters = std::size_t{1} << 20;  // of all expansions together
constexpr int kDeepestExpansion = 24;
constexpr std::size_t kLongestNumber = 64;  // letters of a variable in an expression

// EXTRA_ARGS, LAUNCHER_OPTS: a name for words that others may add.
bool is_list_of_words(std::string_view name) {
  std::string lower(name);
  for (char& c : lower)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  for (const std::string_view part :
       {"args", "arguments", "opts", "options", "extra", "flags", "overrides"})
    if (lower.find(part) != std::string::npos) return true;
  return false;
}

}  // namespace

std::vector<Letters> ShellReader::expanded(const ShellSpan& span, bool whole) {
  const std::size_t back = at_;
  at_ = span.from;
  const std::string_view text = text_;
  // What stands behind the word is not its own, whatever its letters are.
  text_ = text_.substr(0, span.upto);
  std::vector<Letters> words = expanded_word(whole);
  text_ = text;
  at_ = back;
  return words;
}

// One text, with blanks between an array's items.
Letters ShellReader::expanded_whole(const ShellSpan& span) {
  Letters all;
  for (const Letters& letters : expanded(span, true)) {
    if (!all.text.empty() && !letters.at.empty()) all.add(' ', letters.at.front(), false);
    all.add(letters);
  }
  return all;
}

// One word of the script, which may become none or several. `whole`: it does not split.
std::vector<Letters> ShellReader::expanded_word(bool whole) {
  std::vector<Letters> words(1);
  bool any = false;
  while (at_ < text_.size() && spent_ < kMostLetters && !refused_) {
    const char c = peek();
    if (c == '\'') {
      const std::size_t end = std::min(text_.find('\'', at_ + 1), text_.size());
      // A later use of the variable without quotes splits at blanks, and as a script they are blanks, too.
      for (std::size_t i = at_ + 1; i < end; ++i)
        words.back().add(text_[i], place(i),
                         text_[i] != ' ' && text_[i] != '\n' && text_[i] != '\t');
      any = true;
      at_ = std::min(end + 1, text_.size());
    } else if (c == '"') {
      any = true;
      ++at_;
      double_quoted(words);
    } else if (c == '\\') {
      if (peek(1) == '\n' || peek(1) == '\r') {
        at_ += peek(1) == '\r' ? 3 : 2;
        continue;
      }
      if (at_ + 1 < text_.size()) words.back().add(peek(1), place(at_ + 1), true);
      at_ += 2;
    } else if (c == '$' && peek(1) == '\'') {
      any = true;
      escaped(words.back());
    } else if (c == '$' || c == '`') {
      expansion(words, false, whole);
    } else if ((c == '<' || c == '>') && peek(1) == '(') {
      hole(words, "command", at_);
      at_ = end_of_shell_parentheses(text_, at_ + 1);
    } else {
      words.back().add(c, place(at_), true);
      ++at_;
    }
  }
  if (spent_ >= kMostLetters) {
    if (!complained_)
      note(place(at_), "expansions that grow beyond reason", "not followed further");
    complained_ = true;
    refused_ = true;
  }
  std::vector<Letters> result;
  for (Letters& word : words)
    if (!word.text.empty() || any) result.push_back(std::move(word));
  return result;
}

// $'two\nlines', up to its closing quote.
void ShellReader::escaped(Letters& letters) {
  static constexpr std::pair<char, char> kLetters[] = {{'n', '\n'}, {'t', '\t'},   {'r', '\r'},
                                                       {'a', '\a'}, {'b', '\b'},   {'f', '\f'},
                                                       {'v', '\v'}, {'e', '\x1b'}, {'E', '\x1b'}};
  at_ += 2;
  while (at_ < text_.size() && peek() != '\'') {
    const std::size_t from = at_;
    if (peek() != '\\' || at_ + 1 >= text_.size()) {
      letters.add(text_[at_++], place(from), true);
      continue;
    }
    const char c = peek(1);
    at_ += 2;
    const bool hexadecimal = c == 'x';
    int code = hexadecimal ? 0 : -1;
    int digits = 0;
    const auto digit = [&] {
      const char d = peek();
      if (d >= '0' && d <= (hexadecimal ? '9' : '7')) return d - '0';
      if (hexadecimal && d >= 'a' && d <= 'f') return d - 'a' + 10;
      if (hexadecimal && d >= 'A' && d <= 'F') return d - 'A' + 10;
      return -1;
    };
    if (!hexadecimal && c >= '0' && c <= '7') {
      code = c - '0';
      digits = 1;
    }
    while (code >= 0 && digits < (hexadecimal ? 2 : 3) && digit() >= 0) {
      code = code * (hexadecimal ? 16 : 8) + digit();
      ++at_;
      ++digits;
    }
    if (code >= 0) {
      letters.add(static_cast<char>(code & 0xFF), place(from), true);
      continue;
    }
    const auto* known = std::find_if(std::begin(kLetters), std::end(kLetters),
                                     [&](const auto& pair) { return pair.first == c; });
    letters.add(known == std::end(kLetters) ? c : known->second, place(from), true);
  }
  if (at_ < text_.size()) ++at_;
}

void ShellReader::double_quoted(std::vector<Letters>& words) {
  while (at_ < text_.size() && peek() != '"') {
    if (spent_ >= kMostLetters) return;
    const char c = peek();
    if (c == '\\' && at_ + 1 < text_.size()) {
      const char next = peek(1);
      if (next == '\n') {
        at_ += 2;
        words.back().add(' ', place(at_ - 1), false);
      } else {
        if (std::string_view("\"$`\\").find(next) == std::string_view::npos)
          words.back().add('\\', place(at_), true);
        words.back().add(next, place(at_ + 1), true);
        at_ += 2;
      }
    } else if (c == '$' || c == '`') {
      expansion(words, true, true);
    } else {
      // A later unquoted use of the variable splits at these.
      words.back().add(c, place(at_), c != ' ' && c != '\n' && c != '\t');
      ++at_;
    }
  }
  if (at_ < text_.size()) ++at_;
}

// Text of a here-document or an arithmetic expression: variables alone.
Letters ShellReader::expanded_text(std::string_view text, std::size_t from) {
  const std::size_t back = at_;
  const std::string_view whole = text_;
  text_ = text_.substr(0, from + text.size());
  at_ = from;
  std::vector<Letters> words(1);
  while (at_ < text_.size() && spent_ < kMostLetters && !refused_) {
    if (peek() == '$' || peek() == '`') {
      expansion(words, true, true);
    } else if (peek() == '\\' && (peek(1) == '$' || peek(1) == '\\' || peek(1) == '`')) {
      words.back().add(peek(1), place(at_ + 1), true);
      at_ += 2;
    } else {
      words.back().add(peek(), place(at_), true);
      ++at_;
    }
  }
  Letters all;
  for (const Letters& word : words) {
    if (&word != words.data()) all.add(' ', place(from), true);  // between an array's items
    for (std::size_t i = 0; i < word.text.size(); ++i) all.add(word.text[i], word.at[i], true);
  }
  text_ = whole;
  at_ = back;
  return all;
}

void ShellReader::hole(std::vector<Letters>& words, std::string_view name, std::size_t at) {
  for (const char c : fmt::format("${{{}}}", name)) words.back().add(c, place(at), true);
  spent_ += name.size();
}

Lookup ShellReader::lookup() {
  return [this](std::string_view name) -> std::optional<std::string> {
    const auto value = value_of(name);
    if (value == nullptr) cause_ = name;
    if (value == nullptr || value->items.empty()) return std::nullopt;
    const std::string& text = value->items.front().text;
    if (const std::string_view unknown = only_hole(text); !unknown.empty()) cause_ = unknown;
    return text.size() <= kLongestNumber ? std::optional(text) : std::nullopt;
  };
}

// Of a variable, or of $0, $1, ..., where they are known.
BranchedMap<ShellVariable>::Pointer ShellReader::value_of(std::string_view name) {
  const auto made = [&](std::string_view text) {
    Letters letters;
    for (const char c : text) letters.add(c, place(at_), true);
    return std::make_shared<const ShellVariable>(ShellVariable{{std::move(letters)}, false, {}});
  };
  if (name == "0" || name == "BASH_SOURCE") {
    const std::string& file = now_->source->name;
    return made(file.substr(file.rfind('/') == std::string::npos ? 0 : file.rfind('/') + 1));
  }
  const bool number =
      !name.empty() && name.find_first_not_of("0123456789") == std::string_view::npos;
  if ((number || name == "#") && !arguments_) return nullptr;
  if (name == "#") return made(std::to_string(arguments_->size()));
  if (number && name.size() < 4) {
    const std::size_t which = static_cast<std::size_t>(std::stoi(std::string(name)));
    return which <= arguments_->size() ? std::make_shared<const ShellVariable>(
                                             ShellVariable{{(*arguments_)[which - 1]}, false, {}})
                                       : made("");
  }
  if (name == "PWD" && given_names_.count(name) == 0) return made(working_folder());
  return variables_.find(name);
}

// What begins with $ (or a back quote): a variable, a default, arithmetic, or a command's output.
void ShellReader::expansion(std::vector<Letters>& words, bool quoted, bool whole) {
  if (expanding_ >= kDeepestExpansion)
    return refuse(place(at_), fmt::format("nested more than {} deep", kDeepestExpansion),
                  "expansions inside of expansions");
  ++expanding_;
  expansion_within(words, quoted, whole);
  --expanding_;
}

void ShellReader::expansion_within(std::vector<Letters>& words, bool quoted, bool whole) {
  const std::size_t from = at_;
  if (peek() == '`') {
    const std::size_t end = std::min(text_.find('`', at_ + 1), text_.size());
    at_ = std::min(end + 1, text_.size());
    return command_output(words, {from + 1, end}, quoted, whole);
  }
  if (rest().starts_with("$((")) {
    const std::size_t end = end_of_shell_parentheses(text_, at_ + 1);
    if (end >= from + 5 && text_.substr(end - 2, 2) == "))") {
      const Letters letters = expanded_text(text_.substr(at_ + 3, end - at_ - 5), at_ + 3);
      at_ = end;
      cause_.clear();
      if (has_hole(letters.text)) {
        const std::size_t begin = letters.text.find("${") + 2;
        cause_ = letters.text.substr(begin, letters.text.find('}', begin) - begin);
      }
      const auto value = has_hole(letters.text) ? std::nullopt : arithmetic(letters.text, lookup());
      if (!value) {
        script_.holes.emplace("arithmetic", ShellHole{cause_, "a sum that is not known here"});
        return hole(words, "arithmetic", from);
      }
      for (const char c : std::to_string(*value)) words.back().add(c, place(from), true);
      return;
    }
    if (end >= text_.size()) {
      at_ = text_.size();
      return;
    }
  }
  if (rest().starts_with("$(")) {
    const std::size_t end = end_of_shell_parentheses(text_, at_ + 1);
    at_ = end;
    return command_output(words, {from + 2, std::max(from + 2, end - 1)}, quoted, whole);
  }
  if (rest().starts_with("${")) return braces(words, quoted, whole);
  std::size_t end = at_ + 1;
  if (end < text_.size() && is_name_start(text_[end])) {
    while (end < text_.size() && is_name(text_[end])) ++end;
  } else if (end < text_.size() &&
             std::string_view("@*#?!$0123456789").find(text_[end]) != std::string_view::npos) {
    const std::string name(1, text_[end]);
    at_ = end + 1;
    if (name == "@" || name == "*") return put_all(words, name, from);
    return put(words, name, quoted, whole, from);
  } else {
    words.back().add('$', place(at_), true);
    ++at_;
    return;
  }
  const std::string name(text_.substr(at_ + 1, end - at_ - 1));
  at_ = end;
  put(words, name, quoted, whole, from);
}

// $(command): what the few print that are followed, and the folder of the script.
void ShellReader::command_output(std::vector<Letters>& words, ShellSpan inside, bool quoted,
                                 bool whole) {
  constexpr std::size_t kLongestCommand = 4096;
  const std::string_view text = inside.of(text_);
  if (text.size() <= kLongestCommand && commands_ < 15'000) {
    const std::size_t first = std::min(text.find_first_not_of(" \n\t"), text.size());
    const std::string_view name = text.substr(first, text.find_first_of(" \n\t<;&", first) - first);
    if (name == "echo" || name == "cat" || name == "printf" || name == "sed" ||
        name == "envsubst" || name == "basename" || name == "expr" || name == "seq" ||
        prints_folder(name)) {
      if (const Output output = output_of(inside)) return spread(words, *output, quoted || whole);
    }
    const auto has = [&](std::string_view word) {
      return text.find(word) != std::string_view::npos;
    };
    if ((has("dirname") || has("readlink") || has("realpath")) &&
        (has("$0") || has("BASH_SOURCE"))) {
      // Files are looked for from there.
      words.back().add('.', place(inside.from), true);
      return;
    }
  }
  hole(words, "command", inside.from);
}

// What a command or a pipeline of a few commands prints, without its last line ends.
ShellReader::Output ShellReader::output_of(ShellSpan inside) {
  using Joint = ShellStatement::Joint;
  const std::string_view written = inside.of(text_);
  Letters letters;
  for (std::size_t i = 0; i < written.size(); ++i)
    letters.add(written[i], place(inside.from + i), true);
  Text& script = add_text(letters);
  script.tree = parse_shell(script.text);
  const Text* before = now_;
  const std::string_view limit = text_;
  const std::size_t at = at_;
  enter(script);
  Output output;
  std::string folder = working_folder();
  const ShellBlock& block = script.tree.statements;
  bool simple = !script.tree.too_deep && !block.empty();
  for (std::size_t i = 0; i < block.size(); ++i)
    simple =
        simple && block[i].kind == ShellStatement::Kind::kCommand && block[i].joint != Joint::kOr;
  const auto status = status_;
  bool moved = true;  // each command so far changed the folder: another may follow
  for (const ShellStatement& one : block) {
    if (!simple || refused_) break;
    ++commands_;
    Parts parts = parts_of(one, output);
    Output next;
    simple =
        !parts.words.empty() && (moved || one.joint == Joint::kPipe) &&
        (run_folder(parts, folder, next) || run_filter(parts, next) || run_number(parts, next));
    moved = simple && !next && parts.words.front().text == "cd";
    output = std::move(next);
  }
  status_ = status;
  now_ = before;
  text_ = limit;
  at_ = at;
  if (!simple || !output) return std::nullopt;
  while (!output->text.empty() && output->text.back() == '\n') {
    output->text.pop_back();
    output->at.pop_back();
    output->quoted.pop_back();
  }
  for (std::size_t i = 0; i < output->text.size(); ++i)
    output->quoted[i] = output->text[i] != ' ' && output->text[i] != '\n';
  return output;
}

// ${NAME}, ${NAME[@]}, ${NAME:-default}
void ShellReader::braces(std::vector<Letters>& words, bool quoted, bool whole) {
  const std::size_t from = at_;
  const std::size_t past = end_of_shell_braces(text_, from + 1);
  if (past > text_.size() || past < from + 3 || text_[past - 1] != '}') {
    at_ = text_.size();
    return;
  }
  const std::size_t close = past - 1;
  std::size_t end = at_ + 2;
  while (end < close && is_name(text_[end])) ++end;
  if (end == at_ + 2 && end < close && (text_[end] == '@' || text_[end] == '*')) ++end;
  std::string name(text_.substr(from + 2, end - from - 2));
  const std::string_view inside = text_.substr(end, close - end);
  at_ = past;
  if (name.empty() && inside.starts_with("!") && inside.size() > 1 && is_name_start(inside[1])) {
    // ${!NAME}: the variable of that name.
    const auto named = value_of(inside.substr(1));
    if (!named || named->items.empty() || has_hole(named->items.front().text))
      return hole(words, "expression", from);
    return put(words, named->items.front().text, quoted, whole, from);
  }
  if (name == "@" || name == "*")
    return put_all(words, name, from, inside == ":2" ? 1 : inside == ":3" ? 2 : 0);
  if (inside.empty() || inside == "[0]") return put(words, name, quoted, whole, from);
  if (inside == "[@]" || inside == "[*]") return put_all(words, name, from);
  const auto value = name.empty() ? nullptr : value_of(name);
  const bool empty =
      !value || value->items.empty() || (value->items.size() == 1 && value->items[0].text.empty());
  const bool colon = inside.front() == ':';
  const char sign = inside.size() > (colon ? 1U : 0U) ? inside[colon ? 1 : 0] : '\0';
  const std::size_t skip = colon ? 2 : 1;
  if (sign == '-' || sign == '=') {
    if (value && !(colon && empty)) return put(words, name, quoted, whole, from);
    return fallback(words, name, inside.substr(skip), end + skip, sign == '=', quoted || whole);
  }
  if (sign == '+') {
    if (!empty) fallback(words, name, inside.substr(skip), end + skip, false, quoted || whole);
    return;
  }
  if (sign == '?') return put(words, name, quoted, whole, from);
  if (changed_value(words, name, inside, from, quoted || whole)) return;
  hole(words, name.empty() ? "expression" : name, from);
}

// What a default becomes.
void ShellReader::fallback(std::vector<Letters>& words, const std::string& name,
                           std::string_view text, std::size_t at, bool assigns, bool whole) {
  if (text.size() >= 2 && (text.front() == '"' || text.front() == '\'') &&
      text.back() == text.front()) {
    text = text.substr(1, text.size() - 2);
    ++at;
  }
  const std::size_t back = at_;
  const std::string_view limit = text_;
  text_ = text_.substr(0, at + text.size());
  at_ = at;
  std::vector<Letters> inner(1);
  while (at_ < text_.size() && spent_ < kMostLetters && !refused_) {
    if (peek() == '$' || peek() == '`') {
      expansion(inner, true, true);
    } else if (peek() == '"') {
      ++at_;
    } else {
      inner.back().add(peek(), place(at_), peek() != ' ' && peek() != '\n');
      ++at_;
    }
  }
  text_ = limit;
  at_ = back;
  Letters letters;
  for (const Letters& word : inner) letters.add(word);
  if (assigns && !name.empty()) assign(name, {{letters}, false, {}});
  spread(words, letters, whole);
}

// ${NAME##*/}, ${NAME%.*}, ${NAME/a/b}, ${#NAME}, ${NAME[1]}, ${NAME^^}, ${NAME:0:4}
bool ShellReader::changed_value(std::vector<Letters>& words, const std::string& name,
                                std::string_view inside, std::size_t from, bool whole) {
  if (name.empty() && inside.starts_with("#")) {
    std::string_view counted = inside.substr(1);
    const bool items = counted.ends_with("[@]");
    if (items) counted.remove_suffix(3);
    const auto value = value_of(counted);
    if (!value) return false;
    const std::size_t size = items                  ? value->items.size()
                             : value->items.empty() ? 0
                                                    : value->items.front().text.size();
    for (const char c : std::to_string(size)) words.back().add(c, place(from), true);
    return true;
  }
  const auto value = value_of(name);
  if (!value || value->items.empty()) return false;
  if (inside.front() == '[' && inside.back() == ']') {
    const auto index = arithmetic(inside.substr(1, inside.size() - 2), lookup());
    if (!index || *index < 0 || *index >= static_cast<std::int64_t>(value->items.size()))
      return false;
    spread(words, value->items[static_cast<std::size_t>(*index)], whole);
    return true;
  }
  const Letters& all = value->items.front();
  if (value->array || has_hole(all.text)) return false;
  std::size_t begin = 0;
  std::size_t end = all.text.size();
  std::string_view rest = inside.substr(1);
  const bool longest = rest.starts_with(inside.substr(0, 1));
  if (longest) rest.remove_prefix(1);
  if (has_hole(rest) || rest.find('$') != std::string_view::npos) return false;
  if (inside.front() == '#' && rest.starts_with("*") && rest.size() > 1) {
    const std::size_t found =
        longest ? all.text.rfind(rest.substr(1)) : all.text.find(rest.substr(1));
    if (found != std::string::npos) begin = found + rest.size() - 1;
  } else if (inside.front() == '#' && rest.find('*') == std::string_view::npos) {
    if (all.text.starts_with(rest)) begin = rest.size();
  } else if (inside.front() == '%' && rest.ends_with("*") && rest.size() > 1) {
    const std::string_view mark = rest.substr(0, rest.size() - 1);
    const std::size_t found = longest ? all.text.find(mark) : all.text.rfind(mark);
    if (found != std::string::npos) end = found;
  } else if (inside.front() == '%' && rest.find('*') == std::string_view::npos) {
    if (all.text.ends_with(rest)) end -= rest.size();
  } else if ((inside.front() == ',' || inside.front() == '^') && rest.empty()) {
    Letters changed = all;
    for (std::size_t i = 0;
         i < (longest ? changed.text.size() : std::min<std::size_t>(1, changed.text.size())); ++i) {
      char& c = changed.text[i];
      if (inside.front() == ',' && c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
      if (inside.front() == '^' && c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
    }
    spread(words, changed, whole);
    return true;
  } else {
    return false;
  }
  Letters part;
  for (std::size_t i = begin; i < end; ++i) part.add(all.text[i], all.at[i], all.quoted[i]);
  spread(words, part, whole);
  return true;
}

void ShellReader::put(std::vector<Letters>& words, const std::string& name, bool quoted, bool whole,
                      std::size_t from) {
  const auto value = value_of(name);
  if (!value) {
    // Words that a caller may add, as $EXTRA_ARGS: without them there are none.
    const bool alone = words.back().text.empty() && !whole &&
                       (at_ >= text_.size() ||
                        std::string_view(" \t\n\r;|&)\\").find(peek()) != std::string_view::npos);
    if (alone && !quoted && is_list_of_words(name)) return;
    return hole(words, name, from);
  }
  for (const std::size_t which : value->doubts) {
    Doubt& doubt = doubts_[which];
    if (!std::exchange(doubt.said, true))
      note(doubt.at, "a condition that is not known here", doubt.label);
  }
  if (value->items.empty()) return;
  spread(words, value->items.front(), quoted || whole);
}

// Items from the one behind `skip` on: of an array, or the script's own words.
void ShellReader::put_all(std::vector<Letters>& words, const std::string& name, std::size_t from,
                          std::size_t skip) {
  ShellVariable given;
  BranchedMap<ShellVariable>::Pointer value;
  if (name == "@" || name == "*") {
    if (!arguments_) return;  // the caller's: none
    given.items = *arguments_;
    given.array = true;
    value = std::make_shared<const ShellVariable>(std::move(given));
  } else {
    value = variables_.find(name);
  }
  if (!value) {
    if (!is_list_of_words(name)) hole(words, name + "[@]", from);
    return;
  }
  for (const std::size_t which : value->doubts) {
    Doubt& doubt = doubts_[which];
    if (!std::exchange(doubt.said, true))
      note(doubt.at, "a condition that is not known here", doubt.label);
  }
  bool first = true;
  for (std::size_t i = skip; i < value->items.size(); ++i) {
    const Letters& item = value->items[i];
    if (!first || !words.back().text.empty()) words.emplace_back();
    first = false;
    // An element such as "--fp8-format hybrid" is two words to whoever joins them; split it as unquoted.
    const bool pair = item.text.starts_with("--") && item.text.find(' ') != std::string::npos &&
                      item.text.find('{') == std::string::npos;
    spread(words, item, !pair);
  }
}

// Letters of a variable into the word; unquoted, its blanks end words.
void ShellReader::spread(std::vector<Letters>& words, const Letters& letters, bool whole) {
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

}  // namespace steelyard
