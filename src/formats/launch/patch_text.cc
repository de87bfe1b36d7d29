#include "formats/launch/patch_text.h"

#include <algorithm>
#include <cmath>

namespace steelyard {
namespace {

bool continues_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U; }

std::string lower(std::string text) {
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return text;
}

}  // namespace

std::size_t line_start(std::string_view text, std::size_t at) {
  return at == 0 ? 0 : text.rfind('\n', at - 1) + 1;
}

std::size_t line_end(std::string_view text, std::size_t at) {
  std::size_t end = std::min(text.find('\n', at), text.size());
  if (end > at && text[end - 1] == '\r') --end;
  return end;
}

std::optional<std::size_t> offset_of(const LaunchSource& source, const Mark& mark) {
  if (mark.line < 1 || mark.column < 1) return std::nullopt;
  const std::string_view text = source.text;
  std::size_t at = text.starts_with("\xEF\xBB\xBF") ? 3 : 0;
  for (int line = 1; line < mark.line; ++line) {
    const std::size_t end = text.find('\n', at);
    if (end == std::string_view::npos) return std::nullopt;
    at = end + 1;
  }
  // A script's columns are bytes, those of documents are characters.
  if (source.language == LaunchSource::Language::kShell)
    at += static_cast<std::size_t>(mark.column - 1);
  else
    for (int column = 1; column < mark.column && at < text.size(); ++column) {
      ++at;
      while (at < text.size() && continues_character(text[at])) ++at;
    }
  return at < text.size() ? std::optional(at) : std::nullopt;
}

bool says_the_same(const Value& one, const Value& other) {
  if (one.is_null() || other.is_null()) return one.is_null() && other.is_null();
  if (one.is_array() || other.is_array()) {
    if (!one.is_array() || !other.is_array() || one.items().size() != other.items().size())
      return false;
    for (std::size_t i = 0; i < one.items().size(); ++i)
      if (!says_the_same(one.items()[i], other.items()[i])) return false;
    return true;
  }
  if (one.is_table() || other.is_table()) {
    if (!one.is_table() || !other.is_table() || one.members().size() != other.members().size())
      return false;
    for (const Value::Member& member : one.members()) {
      const Value* there = other.find(member.key);
      if (there == nullptr || !says_the_same(member.value, *there)) return false;
    }
    return true;
  }
  const Value a = one.is_string() ? typed_value(one.as_string()) : one;
  const Value b = other.is_string() ? typed_value(other.as_string()) : other;
  if (a.is_number() && b.is_number()) return a.as_number() == b.as_number();
  return lower(word_of(a)) == lower(word_of(b));
}

std::size_t end_of_token(std::string_view text, std::size_t at, std::string_view ends) {
  int open = 0;
  std::size_t i = at;
  while (i < text.size()) {
    const char c = text[i];
    if (c == '"' || c == '\'') {
      const std::size_t from = i++;
      while (i < text.size() && text[i] != c) i += text[i] == '\\' && c == '"' ? 2 : 1;
      i = std::min(i + 1, text.size());
      if (open == 0 && from == at) return i;
      continue;
    }
    if (c == '[' || c == '{') ++open;
    if ((c == ']' || c == '}') && open > 0 && --open == 0) return i + 1;
    if (open == 0 && ends.find(c) != std::string_view::npos) return i;
    ++i;
  }
  return text.size();
}

std::string in_the_style_of(std::string_view old, const Value& value, std::string plain) {
  if (value.is_bool()) {
    static constexpr std::string_view kPairs[][2] = {
        {"True", "False"}, {"yes", "no"}, {"Yes", "No"}, {"on", "off"}, {"On", "Off"}};
    for (const auto& pair : kPairs)
      if (old == pair[0] || old == pair[1]) return std::string(value.as_bool() ? pair[0] : pair[1]);
  }
  const bool was_quoted = old.size() >= 2 && (old.front() == '"' || old.front() == '\'');
  const bool is_simple = std::all_of(plain.begin(), plain.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("_-./").find(c) != std::string_view::npos;
  });
  if (was_quoted && value.is_string() && is_simple)
    return std::string(1, old.front()) + plain + std::string(1, old.front());
  return plain;
}

Value wrapped(const std::vector<std::string>& rest, const Value& value) {
  Value inner = value;
  for (std::size_t i = rest.size(); i-- > 1;) {
    Value table = Value::table();
    table.members().push_back({rest[i], Mark(), std::move(inner)});
    inner = std::move(table);
  }
  return inner;
}

Home home_of(std::string_view name, const Value& root, const NewMember& member) {
  Home home;
  home.table = &root;
  std::size_t depth = 0;
  while (depth + 1 < member.path.size()) {
    const Value* next = home.table->find(member.path[depth]);
    if (next == nullptr || !next->is_table()) break;
    home.table = next;
    ++depth;
  }
  home.rest.assign(member.path.begin() + static_cast<std::ptrdiff_t>(depth), member.path.end());
  const auto is_here = [&](const Value::Member& one) {
    return one.key_mark.source != nullptr && one.key_mark.source->name == name &&
           one.key_mark.line > 0;
  };
  // The nearest key that is usually written before it; else the last of the table.
  const auto own = std::find(member.order.begin(), member.order.end(), home.rest.front());
  for (auto before = own; before != member.order.begin();) {
    --before;
    const Value::Member* there = home.table->member(*before);
    if (there == nullptr || !is_here(*there)) continue;
    home.beside = there;
    return home;
  }
  for (const Value::Member& one : home.table->members())
    if (is_here(one)) home.beside = &one;
  return home;
}

std::optional<TextEdit> replaced(const LaunchSource& source, const Value::Member& member,
                                 const Value& value) {
  const auto key = offset_of(source, member.key_mark);
  auto at = offset_of(source, member.value.mark());
  if (member.value.is_null() && key) at = key;
  if (!key || !at) return std::nullopt;
  switch (source.language) {
    case LaunchSource::Language::kYaml:
      return yaml_replaced(source.text, *key, *at, member.value, value);
    case LaunchSource::Language::kJson:
      return json_replaced(source.text, *at, member.value, value);
    case LaunchSource::Language::kToml:
      return toml_replaced(source.text, *at, member.value, value);
    case LaunchSource::Language::kShell:
      return shell_replaced(source.text, *key, *at, member.value, value);
  }
  return std::nullopt;
}

std::optional<TextEdit> removed(const LaunchSource& source, const Value::Member& member) {
  const auto key = offset_of(source, member.key_mark);
  const auto at = offset_of(source, member.value.mark());
  if (!key || !at) return std::nullopt;
  switch (source.language) {
    case LaunchSource::Language::kYaml:
      return yaml_removed(source.text, *key, member.value);
    case LaunchSource::Language::kJson:
      return json_removed(source.text, *key, *at);
    case LaunchSource::Language::kToml:
      return toml_removed(source.text, *key, *at);
    case LaunchSource::Language::kShell:
      return shell_removed(source.text, *key, *at, member.value);
  }
  return std::nullopt;
}

std::optional<TextEdit> inserted(const LaunchSource& source, std::string_view name,
                                 const Value& root, const NewMember& member) {
  switch (source.language) {
    case LaunchSource::Language::kYaml:
      return yaml_inserted(source, name, root, member);
    case LaunchSource::Language::kJson:
      return json_inserted(source, name, root, member);
    case LaunchSource::Language::kToml:
      return toml_inserted(source, name, root, member);
    case LaunchSource::Language::kShell:
      return shell_inserted(source, name, root, member);
  }
  return std::nullopt;
}

}  // namespace steelyard
