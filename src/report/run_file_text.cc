#include "report/run_file_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "document/quoting.h"
#include "document/read.h"

namespace steelyard {
namespace {

std::string value_text(const Value& value) {
  switch (value.kind()) {
    case Value::Kind::kNull:
      return "\"\"";
    case Value::Kind::kBool:
      return value.as_bool() ? "true" : "false";
    case Value::Kind::kInteger:
      return std::to_string(value.as_integer());
    case Value::Kind::kNumber: {
      std::string text = fmt::format("{}", value.as_number());
      if (text.find_first_of(".en") == std::string::npos) text += ".0";
      return text;
    }
    case Value::Kind::kString:
      return toml_string(value.as_string());
    case Value::Kind::kArray: {
      std::string text = "[";
      for (const Value& item : value.items())
        text += (text.size() > 1 ? ", " : "") + value_text(item);
      return text + "]";
    }
    case Value::Kind::kTable: {
      std::string text = "{";
      for (const Value::Member& member : value.members())
        // TOML has no null: a key without a value is a key that is not there.
        if (!member.value.is_null())
          text += (text.size() > 1 ? ", " : " ") + toml_key(member.key) + " = " +
                  value_text(member.value);
      return text + (text.size() > 1 ? " }" : "}");
    }
  }
  return "";
}

// Lines of a text, without their ends.
std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    lines.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  return lines;
}

std::size_t byte_of_column(std::string_view line, int column) {
  std::size_t byte = 0;
  for (int seen = 1; byte < line.size(); ++byte)
    if ((static_cast<unsigned char>(line[byte]) & 0xC0U) != 0x80U && seen++ == column) break;
  return byte;
}

bool replace_value(std::vector<std::string>& lines, const Value& old, const std::string& fresh) {
  const Mark& mark = old.mark();
  if (mark.line < 1 || static_cast<std::size_t>(mark.line) > lines.size() || mark.column < 1 ||
      mark.length < 1)
    return false;
  std::string& line = lines[static_cast<std::size_t>(mark.line) - 1];
  const std::size_t from = byte_of_column(line, mark.column);
  const std::size_t upto = byte_of_column(line, mark.column + mark.length);
  line.replace(from, upto - from, fresh);
  return true;
}

// The line number (0-based) after which a new key of `section` stands: its last key or its header.
std::optional<std::size_t> end_of_section(const std::vector<std::string>& lines,
                                          std::string_view section) {
  std::optional<std::size_t> last;
  bool inside = section.empty();
  for (std::size_t i = 0; i < lines.size(); ++i) {
    std::string_view line = lines[i];
    line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
    if (!line.empty() && line.front() == '[') {
      if (inside && section.empty()) return last;
      const std::string_view name =
          line.substr(1, line.find(']') == std::string_view::npos ? 0 : line.find(']') - 1);
      inside = name == section;
      if (inside) last = i;
    } else if (inside && !line.empty() && line.front() != '#') {
      last = i;
    }
  }
  return last;
}

void insert_key(std::vector<std::string>& lines, const std::string& path,
                const std::string& fresh) {
  const std::size_t dot = path.rfind('.');
  const std::string section = dot == std::string::npos ? "" : path.substr(0, dot);
  const std::string line =
      toml_key(dot == std::string::npos ? path : path.substr(dot + 1)) + " = " + fresh;
  if (const auto after = end_of_section(lines, section)) {
    lines.insert(lines.begin() + static_cast<std::ptrdiff_t>(*after) + 1, line);
  } else if (section.empty()) {
    lines.insert(lines.begin(), line);
  } else {
    if (!lines.empty() && !lines.back().empty()) lines.emplace_back();
    lines.push_back("[" + section + "]");
    lines.push_back(line);
  }
}

// Tables say the same when they print the same; null members say nothing.
bool same(const Value& a, const Value& b) { return run_file_text(a) == run_file_text(b); }

}  // namespace

std::string run_file_text(const Value& run) {
  std::string top;
  std::string sections;
  if (!run.is_table()) return "";
  for (const Value::Member& member : run.members()) {
    if (member.value.is_null()) continue;
    if (!member.value.is_table() || member.key == "model") {
      top += toml_key(member.key) + " = " + value_text(member.value) + "\n";
      continue;
    }
    sections += "\n[" + toml_key(member.key) + "]\n";
    for (const Value::Member& inner : member.value.members())
      if (!inner.value.is_null())
        sections += toml_key(inner.key) + " = " + value_text(inner.value) + "\n";
  }
  return top + sections;
}

std::string edited_run_file(std::string_view text, const Value& before,
                            const std::vector<KeyEdit>& edits) {
  Value wanted = before;
  std::vector<std::string> lines = lines_of(text);
  for (std::size_t i = 0; i < edits.size(); ++i) {
    const KeyEdit& edit = edits[i];
    const bool is_last =
        std::none_of(edits.begin() + static_cast<std::ptrdiff_t>(i) + 1, edits.end(),
                     [&](const KeyEdit& later) { return later.key == edit.key; });
    if (!is_last) continue;
    const Value* old = before.at(edit.key);
    set_path(wanted, edit.key, edit.value, Place{});
    if (old == nullptr || !replace_value(lines, *old, value_text(edit.value)))
      insert_key(lines, edit.key, value_text(edit.value));
  }
  std::string result;
  for (const std::string& line : lines) result += line + "\n";
  const ReadValue read = read_toml(result, "");
  return read && same(*read, wanted) ? result : run_file_text(wanted);
}

}  // namespace steelyard
