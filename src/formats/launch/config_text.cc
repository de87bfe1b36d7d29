#include "formats/launch/config_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "document/read.h"

namespace steelyard {
namespace {

std::string number_text(double number) {
  std::string text = fmt::format("{}", number);
  const std::size_t exponent = text.find('e');
  // PyYAML reads 1e-05 as text, 1.0e-05 as a number.
  if (text.find('.') == std::string::npos && text.find("inf") == std::string::npos &&
      text.find("nan") == std::string::npos) {
    if (exponent == std::string::npos)
      text += ".0";
    else
      text.insert(exponent, ".0");
  }
  return text;
}

std::string quoted(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\')
      result += {'\\', c};
    else if (c == '\n')
      result += "\\n";
    else if (c == '\t')
      result += "\\t";
    else if (byte < 0x20U)
      result += fmt::format("\\u{:04x}", byte);
    else
      result.push_back(c);
  }
  return result + "\"";
}

bool is_plain(std::string_view text) {
  const auto letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '/' || c == '.' || c == '-';
  };
  return !text.empty() && std::all_of(text.begin(), text.end(), letter) && text.front() != '-';
}

// Without quotes only where it is read as the same text again.
std::string yaml_word(const std::string& text) {
  if (is_plain(text)) {
    const ReadValue read = read_yaml(text, "");
    if (read && read->is_string() && read->as_string() == text) return text;
  }
  if (text.find_first_of("'\n\t") == std::string::npos &&
      std::all_of(text.begin(), text.end(),
                  [](char c) { return static_cast<unsigned char>(c) >= 0x20U; }))
    return "'" + text + "'";
  return quoted(text);
}

std::string scalar(const Value& value, bool yaml) {
  switch (value.kind()) {
    case Value::Kind::kNull:
      return "null";
    case Value::Kind::kBool:
      return value.as_bool() ? "true" : "false";
    case Value::Kind::kInteger:
      return std::to_string(value.as_integer());
    case Value::Kind::kNumber:
      return number_text(value.as_number());
    case Value::Kind::kString:
      return yaml ? yaml_word(value.as_string()) : quoted(value.as_string());
    default:
      return "";
  }
}

bool has_tables(const Value& list) {
  return std::any_of(list.items().begin(), list.items().end(),
                     [](const Value& item) { return item.is_table() || item.is_array(); });
}

std::string flow(const Value& value, bool yaml, std::string_view sign) {
  if (value.is_array()) {
    std::string text = "[";
    for (const Value& item : value.items())
      text += (text.size() > 1 ? ", " : "") + flow(item, yaml, sign);
    return text + "]";
  }
  if (value.is_table()) {
    std::string text = "{";
    for (const Value::Member& member : value.members()) {
      if (member.value.is_null() && sign == " = ") continue;
      text += fmt::format("{}{}{}{}", text.size() > 1 ? ", " : "",
                          is_plain(member.key) && sign != "\": " ? member.key : quoted(member.key),
                          sign, flow(member.value, yaml, sign));
    }
    return text + "}";
  }
  return scalar(value, yaml);
}

void add_comment(std::string& line, const Comments& comments, const std::string& path) {
  const auto found = comments.find(path);
  if (found != comments.end() && !found->second.empty()) line += "  # " + found->second;
}

void add_yaml(std::string& text, const Value& table, const Comments& comments,
              const std::string& prefix, int indent, bool first_on_line) {
  bool first = first_on_line;
  for (const Value::Member& member : table.members()) {
    const std::string path = prefix.empty() ? member.key : prefix + "." + member.key;
    if (!first) text.append(static_cast<std::size_t>(indent), ' ');
    first = false;
    std::string line = yaml_word(member.key) + ":";
    const Value& value = member.value;
    if (value.is_table() && !value.members().empty()) {
      add_comment(line, comments, path);
      text += line + "\n";
      add_yaml(text, value, comments, path, indent + 2, false);
    } else if (value.is_array() && !value.items().empty() && has_tables(value)) {
      add_comment(line, comments, path);
      text += line + "\n";
      for (const Value& item : value.items()) {
        text.append(static_cast<std::size_t>(indent), ' ');
        text += "- ";
        if (item.is_table() && !item.members().empty())
          add_yaml(text, item, {}, path, indent + 2, true);
        else
          text += flow(item, true, ": ") + "\n";
      }
    } else {
      line += " " + flow(value, true, ": ");
      add_comment(line, comments, path);
      text += line + "\n";
    }
  }
}

void add_json(std::string& text, const Value& value, int indent) {
  if (value.is_table() && !value.members().empty()) {
    text += "{\n";
    for (std::size_t i = 0; i < value.members().size(); ++i) {
      text.append(static_cast<std::size_t>(indent) + 2, ' ');
      text += quoted(value.members()[i].key) + ": ";
      add_json(text, value.members()[i].value, indent + 2);
      text += i + 1 < value.members().size() ? ",\n" : "\n";
    }
    text.append(static_cast<std::size_t>(indent), ' ');
    text += "}";
  } else if (value.is_array()) {
    text += "[";
    for (std::size_t i = 0; i < value.items().size(); ++i) {
      if (i > 0) text += ", ";
      add_json(text, value.items()[i], indent);
    }
    text += "]";
  } else if (value.is_table()) {
    text += "{}";
  } else {
    text += scalar(value, false);
  }
}

}  // namespace

std::string yaml_text(const Value& document, const Comments& comments) {
  std::string text;
  add_yaml(text, document, comments, "", 0, false);
  return text;
}

std::string json_text(const Value& document) {
  std::string text;
  add_json(text, document, 0);
  return text + "\n";
}

std::string toml_text(const Value& document, const Comments& comments) {
  std::string text;
  const auto line_of = [&](const std::string& path, const Value::Member& member) {
    std::string line = (is_plain(member.key) && member.key.find_first_of("./") == std::string::npos
                            ? member.key
                            : quoted(member.key)) +
                       " = " + flow(member.value, false, " = ");
    add_comment(line, comments, path);
    text += line + "\n";
  };
  for (const Value::Member& member : document.members())
    if (!member.value.is_table() && !member.value.is_null()) line_of(member.key, member);
  const std::function<void(const Value&, const std::string&)> section =
      [&](const Value& table, const std::string& path) {
        bool headed = false;
        for (const Value::Member& member : table.members()) {
          if (member.value.is_table() || member.value.is_null()) continue;
          if (!headed) text += (text.empty() ? "[" : "\n[") + path + "]\n";
          headed = true;
          line_of(path + "." + member.key, member);
        }
        for (const Value::Member& member : table.members())
          if (member.value.is_table()) section(member.value, path + "." + member.key);
      };
  for (const Value::Member& member : document.members())
    if (member.value.is_table()) section(member.value, member.key);
  return text;
}

}  // namespace steelyard
