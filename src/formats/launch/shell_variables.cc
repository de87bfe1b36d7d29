// What a variable becomes in a word: its value, a default, a part of it, or all items of an array.
//
//   ${SIZE:-7B}   ${NAME##*/}   ${ARGS[@]}   ${#LIST[@]}
#include "formats/launch/shell_reader.h"

namespace steelyard {
namespace {

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
  while (at_ < text_.size() && spent_ < kMostExpanded && !refused_) {
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

}  // namespace steelyard
