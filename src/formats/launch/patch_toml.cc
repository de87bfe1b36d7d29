// TOML: one key at a time; a new table stands at the end.
#include <algorithm>

#include "document/read.h"
#include "formats/launch/config_text.h"
#include "formats/launch/patch_text.h"

namespace steelyard {
namespace {

constexpr std::string_view kEnds = ",]}#\r\n";

std::string member_text(const std::string& key, const Value& value) {
  Value one = Value::table();
  one.members().push_back({key, Mark(), value});
  std::string text = toml_text(one);
  text.pop_back();
  return text;
}

std::size_t end_of_value(std::string_view text, std::size_t at) {
  std::size_t end = end_of_token(text, at, kEnds);
  if (text.substr(at).starts_with("\"\"\"") || text.substr(at).starts_with("'''"))
    end = std::min(text.find(text.substr(at, 3), at + 3), text.size() - 3) + 3;
  while (end > at && (text[end - 1] == ' ' || text[end - 1] == '\t')) --end;
  return end;
}

}  // namespace

std::optional<TextEdit> toml_replaced(std::string_view text, std::size_t at, const Value& old,
                                      const Value& value) {
  const std::size_t end = end_of_value(text, at);
  const std::string_view token = text.substr(at, end - at);
  const ReadValue read = read_toml("k = " + std::string(token), "");
  if (!read || read->find("k") == nullptr || !says_the_same(*read->find("k"), old))
    return std::nullopt;
  std::string word = member_text("k", value).substr(4);
  if (value.is_string() && token.starts_with("'") && word.find_first_of("'\\") == std::string::npos)
    word = "'" + value.as_string() + "'";
  return TextEdit{at, end - at, std::move(word)};
}

std::optional<TextEdit> toml_removed(std::string_view text, std::size_t key, std::size_t at) {
  const std::size_t start = line_start(text, key);
  if (text.substr(start, key - start).find_first_not_of(" \t") != std::string_view::npos)
    return std::nullopt;
  const std::size_t next = std::min(text.find('\n', end_of_value(text, at)), text.size());
  return TextEdit{start, std::min(next + 1, text.size()) - start, ""};
}

std::optional<TextEdit> toml_inserted(const LaunchSource& source, std::string_view name,
                                      const Value& root, const NewMember& member) {
  const std::string_view text = source.text;
  const Home home = home_of(name, root, member);
  const bool has_table = home.rest.size() == 1;
  if (!has_table || member.value.is_table()) {
    Value whole = Value::table();
    std::string path;
    for (const std::string& part : member.path) path += (path.empty() ? "" : ".") + part;
    set_path(whole, path, member.value, Place());
    const bool ends = text.empty() || text.back() == '\n';
    return TextEdit{text.size(), 0, std::string(ends ? "\n" : "\n\n") + toml_text(whole)};
  }
  // Beside a key of its own that stands under the table's header, not a table of it.
  const Value::Member* beside = home.beside;
  if (beside != nullptr && beside->value.is_table()) {
    beside = nullptr;
    for (const Value::Member& one : home.table->members())
      if (!one.value.is_table() && one.key_mark.line > 0 && one.key_mark.source != nullptr &&
          one.key_mark.source->name == name)
        beside = &one;
  }
  if (beside == nullptr) {
    const auto header = offset_of(source, home.table->mark());
    if (!header || text[*header] != '[') return std::nullopt;
    return TextEdit{line_end(text, *header), 0,
                    "\n" + member_text(home.rest.front(), member.value)};
  }
  const auto key = offset_of(source, beside->key_mark);
  const auto at = offset_of(source, beside->value.mark());
  if (!key || !at) return std::nullopt;
  const std::size_t start = line_start(text, *key);
  const std::string_view indent = text.substr(start, *key - start);
  if (indent.find_first_not_of(" \t") != std::string_view::npos) {
    if (indent.find('{') == std::string_view::npos) return std::nullopt;
    return TextEdit{end_of_value(text, *at), 0,
                    ", " + member_text(home.rest.front(), member.value)};
  }
  const std::size_t end = line_end(text, end_of_value(text, *at));
  const std::string line_break = end < text.size() && text[end] == '\r' ? "\r\n" : "\n";
  return TextEdit{end, 0,
                  line_break + std::string(indent) + member_text(home.rest.front(), member.value)};
}

}  // namespace steelyard
