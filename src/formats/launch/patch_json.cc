// JSON: one key at a time, with the commas around it.
#include <algorithm>

#include "document/read.h"
#include "formats/launch/config_text.h"
#include "formats/launch/patch_text.h"

namespace steelyard {
namespace {

constexpr std::string_view kEnds = ",]} \t\r\n";

// `indent`: of the line that it begins on; `step`: of a table within a table.
std::string value_text(const Value& value, std::string_view indent, std::string_view step) {
  std::string text = json_text(value);
  text.pop_back();
  std::string moved;
  for (std::size_t i = 0; i < text.size(); ++i) {
    moved.push_back(text[i]);
    if (text[i] != '\n') continue;
    moved += indent;
    for (; text.substr(i + 1, 2) == "  "; i += 2) moved += step;
  }
  return moved;
}

std::string key_text(const std::string& key) {
  std::string text = json_text(Value::string(key));
  text.pop_back();
  return text;
}

}  // namespace

std::optional<TextEdit> json_replaced(std::string_view text, std::size_t at, const Value& old,
                                      const Value& value) {
  const std::size_t end = end_of_token(text, at, kEnds);
  const ReadValue read = read_json(text.substr(at, end - at), "");
  if (!read || !says_the_same(*read, old)) return std::nullopt;
  return TextEdit{at, end - at, value_text(value, "", "  ")};
}

std::optional<TextEdit> json_removed(std::string_view text, std::size_t key, std::size_t at) {
  if (text[key] != '"') return std::nullopt;
  const std::size_t end = end_of_token(text, at, kEnds);
  std::size_t next = std::min(text.find_first_not_of(" \t\r\n", end), text.size());
  std::size_t before = key;
  while (before > 0 && std::string_view(" \t\r\n").find(text[before - 1]) != std::string_view::npos)
    --before;
  if (next < text.size() && text[next] == ',') {
    // With what stands before it, so that the next key takes its place.
    return TextEdit{before, next + 1 - before, ""};
  }
  if (before > 0 && text[before - 1] == ',') --before;
  return TextEdit{before, end - before, ""};
}

std::optional<TextEdit> json_inserted(const LaunchSource& source, std::string_view name,
                                      const Value& root, const NewMember& member) {
  const std::string_view text = source.text;
  const Home home = home_of(name, root, member);
  const Value inner = wrapped(home.rest, member.value);
  if (home.beside == nullptr) {
    const auto open = offset_of(source, home.table->mark());
    if (!open || text[*open] != '{' || !home.table->members().empty()) return std::nullopt;
    return TextEdit{*open + 1, 0, key_text(home.rest.front()) + ": " + value_text(inner, "", "  ")};
  }
  const auto key = offset_of(source, home.beside->key_mark);
  const auto at = offset_of(source, home.beside->value.mark());
  if (!key || !at || text[*key] != '"') return std::nullopt;
  const std::size_t start = line_start(text, *key);
  const std::string_view indent = text.substr(start, *key - start);
  const bool own_line = indent.find_first_not_of(" \t") == std::string_view::npos;
  const std::size_t depth = member.path.size() - home.rest.size() + 1;
  const std::string between = own_line ? "\n" + std::string(indent) : " ";
  return TextEdit{end_of_token(text, *at, kEnds), 0,
                  "," + between + key_text(home.rest.front()) + ": " +
                      value_text(inner, own_line ? indent : "",
                                 own_line && depth > 0 ? indent.substr(0, indent.size() / depth)
                                                       : std::string_view("  "))};
}

}  // namespace steelyard
