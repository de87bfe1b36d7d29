// Flags of a script: where a value was written, in the command itself, in a variable or in an array.
#include <algorithm>

#include "document/quoting.h"
#include "formats/launch/arguments.h"
#include "formats/launch/patch_text.h"

namespace steelyard {
namespace {

constexpr std::string_view kWordEnds = " \t\r\n;|&)(\"'`\\}<>";

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

std::size_t end_of_word(std::string_view text, std::size_t at) {
  return std::min(text.find_first_of(kWordEnds, at), text.size());
}

// The flag's own words: `--name` and, behind `=`, where its value begins.
struct FlagWord {
  std::size_t from = 0, upto = 0;
  std::size_t value = std::string_view::npos;
};
std::optional<FlagWord> flag_at(std::string_view text, std::size_t at) {
  if (text[at] != '-') return std::nullopt;
  FlagWord flag;
  flag.from = at;
  const std::size_t end = end_of_word(text, at);
  const std::size_t sign = text.find('=', at);
  if (sign != std::string_view::npos && sign < end) {
    flag.upto = sign;
    flag.value = sign + 1;
  } else {
    flag.upto = end;
  }
  return flag;
}

// The word that is written at `at`, without its quotes, where it reads as the value.
struct Written {
  std::size_t from = 0, upto = 0;
};
std::optional<Written> word_at(std::string_view text, std::size_t at, const Value& value) {
  Written word{at, 0};
  if (word.from < text.size() && (text[word.from] == '"' || text[word.from] == '\'')) ++word.from;
  word.upto = end_of_word(text, word.from);
  const std::string_view token = text.substr(word.from, word.upto - word.from);
  if (token.empty() || !says_the_same(typed_value(token), value)) return std::nullopt;
  return word;
}

bool is_plain_word(std::string_view word) { return shell_word(word) == word; }

std::string words_for(const Value& value) {
  if (!value.is_array()) return word_of(value);
  std::string words;
  for (const Value& item : value.items()) words += (words.empty() ? "" : " ") + word_of(item);
  return words;
}

std::size_t after_spaces(std::string_view text, std::size_t at) {
  for (;;) {
    while (at < text.size() && (text[at] == ' ' || text[at] == '\t')) ++at;
    if (text.substr(at).starts_with("\\\n"))
      at += 2;
    else if (text.substr(at).starts_with("\\\r\n"))
      at += 3;
    else
      return at;
  }
}

std::size_t values_of(const Value& old) {
  if (old.is_array()) return old.items().size();
  return old.is_bool() && old.as_bool() ? 0 : 1;
}

}  // namespace

std::optional<TextEdit> shell_replaced(std::string_view text, std::size_t key, std::size_t at,
                                       const Value& old, const Value& value) {
  const std::string words = words_for(value);
  for (const Value& item : value.is_array() ? value.items() : Value::Array{value})
    if (!is_plain_word(word_of(item))) return std::nullopt;
  if (value.is_table() || old.is_table()) return std::nullopt;
  const auto flag = flag_at(text, at);
  if (flag && flag->value != std::string_view::npos) at = flag->value;
  if (flag && flag->value == std::string_view::npos && !old.is_array()) {
    // A switch that stands alone.
    if (!old.is_bool()) return std::nullopt;
    return TextEdit{flag->upto, 0, " " + words};
  }
  if (old.is_array()) {
    const auto own = flag_at(text, key);
    if (!own || old.items().empty()) return std::nullopt;
    std::size_t from = after_spaces(text, own->upto);
    const std::size_t first = from;
    std::size_t upto = from;
    for (const Value& item : old.items()) {
      const auto word = word_at(text, from, item);
      if (!word) return std::nullopt;
      upto = word->upto;
      from = after_spaces(text, upto);
    }
    return TextEdit{first, upto - first, words};
  }
  const auto word = word_at(text, at, old);
  if (!word) return std::nullopt;
  return TextEdit{word->from, word->upto - word->from,
                  in_the_style_of(text.substr(word->from, word->upto - word->from), value, words)};
}

std::optional<TextEdit> shell_removed(std::string_view text, std::size_t key, std::size_t at,
                                      const Value& old) {
  (void)at;
  const auto flag = flag_at(text, key);
  if (!flag) return std::nullopt;
  std::size_t end =
      flag->value == std::string_view::npos ? flag->upto : end_of_word(text, flag->value);
  if (flag->value == std::string_view::npos) {
    for (std::size_t i = 0; i < values_of(old); ++i) {
      std::size_t next = after_spaces(text, end);
      if (next >= text.size() || text[next] == '-' || text[next] == '\n') break;
      if (text[next] == '"' || text[next] == '\'')
        next = end_of_token(text, next, " \n");
      else
        while (next < text.size() && !is_space(text[next]) && text[next] != ')' &&
               text[next] != '"' && text[next] != '\'' && text[next] != ';')
          ++next;
      end = next;
    }
  }
  const std::size_t start = line_start(text, key);
  const std::size_t last = line_end(text, end);
  const std::string_view before = text.substr(start, key - start);
  const std::string_view after = text.substr(end, last - end);
  const bool alone = before.find_first_not_of(" \t") == std::string_view::npos &&
                     after.find_first_not_of(" \t\\") == std::string_view::npos;
  if (!alone) {
    std::size_t from = key;
    while (from > start && (text[from - 1] == ' ' || text[from - 1] == '\t')) --from;
    return TextEdit{from, end - from, ""};
  }
  const bool goes_on = after.find('\\') != std::string_view::npos;
  if (goes_on || start == 0)
    return TextEdit{start, std::min(text.find('\n', last), text.size() - 1) + 1 - start, ""};
  // The last line of the command: the one above no longer goes on.
  std::size_t from = start - 1;
  while (from > 0 && (text[from - 1] == ' ' || text[from - 1] == '\\' || text[from - 1] == '\r'))
    --from;
  const bool was_continued = text.substr(from, start - from).find('\\') != std::string_view::npos;
  if (!was_continued)
    return TextEdit{start, std::min(text.find('\n', last), text.size() - 1) + 1 - start, ""};
  return TextEdit{from, last - from, ""};
}

std::optional<TextEdit> shell_inserted(const LaunchSource& source, std::string_view name,
                                       const Value& root, const NewMember& member) {
  const std::string_view text = source.text;
  const Home home = home_of(name, root, member);
  if (member.value.is_table()) return std::nullopt;
  // Where a flag of these begins in the script's own text.
  constexpr std::size_t kNowhere = std::string_view::npos;
  const auto flag_of = [&](const Value::Member& one) {
    if (one.key_mark.source == nullptr || one.key_mark.source->name != name) return kNowhere;
    const std::size_t found = offset_of(source, one.key_mark).value_or(kNowhere);
    return found != kNowhere && text.substr(found).starts_with("--") ? found : kNowhere;
  };
  const auto stands_alone = [&](std::size_t where) {
    const std::size_t start = line_start(text, where);
    return start > 0 &&
           text.substr(start, where - start).find_first_not_of(" \t") == std::string_view::npos;
  };
  // Beside its usual neighbour; where that shares its line with others, at the last flag that begins a line.
  std::size_t at = home.beside == nullptr ? kNowhere : flag_of(*home.beside);
  std::size_t last = kNowhere;
  bool dashes = false;
  for (const Value::Member& one : root.members()) {
    const std::size_t other = flag_of(one);
    if (other == kNowhere) continue;
    const auto flag = flag_at(text, other);
    dashes =
        dashes || (flag && text.substr(flag->from + 2, flag->upto - flag->from - 2).find('-') !=
                               std::string_view::npos);
    if (at == kNowhere) at = other;
    if (stands_alone(other) && (last == kNowhere || other > last)) last = other;
  }
  if (at == kNowhere) return std::nullopt;
  if (!stands_alone(at) && last != kNowhere) at = last;
  std::string key = member.path.back();
  if (dashes) std::replace(key.begin(), key.end(), '_', '-');
  std::string words = "--" + key;
  if (member.value.is_bool() && dashes) {
    if (!member.value.as_bool()) return std::nullopt;
  } else {
    for (const Value& item :
         member.value.is_array() ? member.value.items() : Value::Array{member.value}) {
      if (!is_plain_word(word_of(item))) return std::nullopt;
      words += " " + word_of(item);
    }
  }
  const std::size_t start = line_start(text, at);
  const std::string_view indent = text.substr(start, at - start);
  if (indent.find_first_not_of(" \t") != std::string_view::npos || start == 0)
    return TextEdit{at, 0, words + " "};
  // A line of its own before that flag's, continued as the line above is.
  std::size_t above = start - 1;
  while (above > 0 && (text[above - 1] == '\r' || text[above - 1] == ' ')) --above;
  const bool continued = above > 0 && text[above - 1] == '\\';
  return TextEdit{start, 0, std::string(indent) + words + (continued ? " \\\n" : "\n")};
}

}  // namespace steelyard
