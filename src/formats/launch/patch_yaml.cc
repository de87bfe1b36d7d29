// YAML: block and flow, one key at a time.
#include <algorithm>
#include <utility>
#include <vector>

#include "document/read.h"
#include "formats/launch/config_text.h"
#include "formats/launch/patch_text.h"

namespace steelyard {
namespace {

std::string indented(const std::string& block, std::size_t indent) {
  std::string text;
  std::size_t from = 0;
  while (from < block.size()) {
    const std::size_t end = std::min(block.find('\n', from), block.size());
    if (!text.empty()) text += '\n';
    text += std::string(indent, ' ') + block.substr(from, end - from);
    from = end + 1;
  }
  return text;
}

// `key: value`, over several lines where the value is a table.
std::string member_text(const std::string& key, const Value& value) {
  Value one = Value::table();
  one.members().push_back({key, Mark(), value});
  return yaml_text(one);
}

std::string value_text(const Value& value) {
  const std::string text = member_text("k", value);
  return text.substr(3, text.size() - 4);  // without "k: " and the line's end
}

bool reads_as(std::string_view token, const Value& value) {
  const ReadValue read = read_yaml(token, "");
  return read && says_the_same(*read, value);
}

bool is_blank_line(std::string_view line) {
  return line.find_first_not_of(" \t\r") == std::string_view::npos;
}

// The end of the last line that belongs to a key's value.
std::size_t end_of_member(std::string_view text, std::size_t key, const Value& value) {
  const std::size_t indent = key - line_start(text, key);
  std::size_t end = line_end(text, key);
  for (std::size_t next = text.find('\n', end); next != std::string_view::npos;) {
    const std::size_t from = next + 1;
    if (from >= text.size()) break;
    const std::size_t upto = line_end(text, from);
    const std::string_view line = text.substr(from, upto - from);
    next = text.find('\n', upto);
    if (is_blank_line(line)) continue;
    const std::size_t column = line.find_first_not_of(' ');
    const bool is_item =
        value.is_array() && column == indent && line.substr(column).starts_with("-");
    if (line[column] == '#' && column <= indent) continue;
    if (column <= indent && !is_item) break;
    end = upto;
  }
  return end;
}

// A scalar or a flow list at `at`: to its end, when the text there reads as the value.
std::optional<std::size_t> end_of_value(std::string_view text, std::size_t at, const Value& old) {
  const char c = text[at];
  if (c == '|' || c == '>' || c == '&' || c == '*' || c == '!') return std::nullopt;
  if (c == '"' || c == '\'' || c == '[' || c == '{') {
    const std::size_t end = end_of_token(text, at, "\n");
    return reads_as(text.substr(at, end - at), old) ? std::optional(end) : std::nullopt;
  }
  std::size_t end = line_end(text, at);
  if (const std::size_t comment = text.substr(at, end - at).find(" #");
      comment != std::string_view::npos)
    end = at + comment;
  const auto trimmed = [&](std::size_t upto) {
    while (upto > at && (text[upto - 1] == ' ' || text[upto - 1] == '\t')) --upto;
    return upto;
  };
  end = trimmed(end);
  if (reads_as(text.substr(at, end - at), old)) return end;
  end = trimmed(end_of_token(text, at, ",]}\n"));
  return reads_as(text.substr(at, end - at), old) ? std::optional(end) : std::nullopt;
}

// The items of a list, a line each, as they were where they stay: with the comments beside and above them.
std::string list_text(std::string_view items, std::size_t column, const Value& value) {
  const std::string whole = std::string(column, ' ') + std::string(items);
  std::string_view old = whole;
  struct Line {
    std::string item;  // as it is written, to tell which it is
    std::string text;
    bool taken = false;
  };
  std::vector<Line> lines;
  std::string above;
  while (!old.empty()) {
    const std::size_t end = std::min(old.find('\n'), old.size());
    std::string_view line = old.substr(0, end);
    old.remove_prefix(std::min(end + 1, old.size()));
    const std::size_t first = std::min(line.find_first_not_of(' '), line.size());
    std::string_view word = line.substr(first);
    if (!word.starts_with("- ")) {  // a comment
      above += std::string(line) + "\n";
      continue;
    }
    word.remove_prefix(2);
    if (const std::size_t comment = word.find(" #"); comment != std::string_view::npos)
      word = word.substr(0, comment);
    lines.push_back({std::string(word), std::exchange(above, "") + std::string(line)});
  }
  std::string text;
  for (const Value& item : value.items()) {
    std::string line = std::string(column, ' ') + "- " + value_text(item);
    for (Line& was : lines)
      if (!was.taken && reads_as(was.item, item)) {
        was.taken = true;
        line = was.text;
        break;
      }
    text += (text.empty() ? "" : "\n") + line;
  }
  // The first stands behind its own indentation.
  return text.substr(std::min(text.find_first_not_of(' '), text.size()));
}

std::size_t colon_after(std::string_view text, std::size_t key) {
  const std::size_t end =
      text[key] == '"' || text[key] == '\'' ? end_of_token(text, key, "\n") : key;
  return std::min(text.find(':', end), text.size());
}

bool is_in_flow(std::string_view text, std::size_t key) {
  const std::size_t start = line_start(text, key);
  const std::size_t first = text.find_first_not_of(" -", start);
  return first < key &&
         text.substr(start, key - start).find_first_of("{[") != std::string_view::npos;
}

}  // namespace

std::optional<TextEdit> yaml_replaced(std::string_view text, std::size_t key, std::size_t at,
                                      const Value& old, const Value& value) {
  if (value.is_table()) return std::nullopt;
  const std::size_t colon = colon_after(text, key);
  if (old.is_null()) {
    std::size_t from = colon + 1;
    while (from < text.size() && text[from] == ' ') ++from;
    for (const std::string_view word : {"null", "Null", "NULL", "~"})
      if (text.substr(from).starts_with(word))
        return TextEdit{from, word.size(), value_text(value)};
    return TextEdit{colon + 1, 0, " " + value_text(value)};
  }
  if (old.is_array() && text[at] == '-') {
    const std::size_t end = end_of_member(text, key, old);
    if (!value.is_array() || value.items().empty() || end < at)
      return TextEdit{colon + 1, end - colon - 1, " " + value_text(value)};
    return TextEdit{at, end - at,
                    list_text(text.substr(at, end - at), at - line_start(text, at), value)};
  }
  const auto end = end_of_value(text, at, old);
  if (!end) return std::nullopt;
  std::string word = value_text(value);
  return TextEdit{at, *end - at,
                  in_the_style_of(text.substr(at, *end - at), value, std::move(word))};
}

std::optional<TextEdit> yaml_removed(std::string_view text, std::size_t key, const Value& old) {
  const std::size_t start = line_start(text, key);
  if (text.substr(start, key - start).find_first_not_of(' ') != std::string_view::npos) {
    if (!is_in_flow(text, key)) return std::nullopt;
    const std::size_t colon = colon_after(text, key);
    std::size_t end = end_of_token(text, text.find_first_not_of(' ', colon + 1), ",]}");
    end = std::min(text.find_first_of(",}", end), text.size());
    if (end < text.size() && text[end] == ',') {
      end = std::min(text.find_first_not_of(' ', end + 1), text.size());
      return TextEdit{key, end - key, ""};
    }
    std::size_t from = key;
    while (from > start && (text[from - 1] == ' ' || text[from - 1] == ',')) --from;
    return TextEdit{from, end - from, ""};
  }
  const std::size_t end = end_of_member(text, key, old);
  const std::size_t next = std::min(text.find('\n', end), text.size());
  return TextEdit{start, std::min(next + 1, text.size()) - start, ""};
}

std::optional<TextEdit> yaml_inserted(const LaunchSource& source, std::string_view name,
                                      const Value& root, const NewMember& member) {
  const std::string_view text = source.text;
  const Home home = home_of(name, root, member);
  const Value inner = wrapped(home.rest, member.value);
  std::string key = home.rest.front();
  if (home.beside == nullptr) return std::nullopt;
  const auto beside = offset_of(source, home.beside->key_mark);
  if (!beside) return std::nullopt;
  // Megatron's tests write flags with their dashes as keys.
  if (text.substr(*beside).starts_with("--") || text.substr(*beside).starts_with("\"--")) {
    std::replace(key.begin(), key.end(), '_', '-');
    key = "--" + key;
  }
  if (is_in_flow(text, *beside)) {
    const std::size_t colon = colon_after(text, *beside);
    const std::size_t value = text.find_first_not_of(' ', colon + 1);
    if (value == std::string_view::npos) return std::nullopt;
    std::size_t end = end_of_token(text, value, ",]}\n");
    while (end > value && text[end - 1] == ' ') --end;
    std::string words = inner.is_table() ? "" : member_text(key, inner);
    if (words.empty()) return std::nullopt;
    words.pop_back();
    return TextEdit{end, 0, ", " + words};
  }
  const std::size_t indent = *beside - line_start(text, *beside);
  const std::size_t end = end_of_member(text, *beside, home.beside->value);
  const std::string_view line_break =
      end < text.size() && text[end] == '\r' ? std::string_view("\r\n") : std::string_view("\n");
  std::string block = indented(member_text(key, inner), indent);
  if (line_break.size() == 2) {
    std::string longer;
    for (const char c : block) longer += c == '\n' ? std::string("\r\n") : std::string(1, c);
    block = std::move(longer);
  }
  return TextEdit{end, 0, std::string(line_break) + block};
}

}  // namespace steelyard
