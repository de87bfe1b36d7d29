#include "formats/launch/config_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "document/quoting.h"

namespace steelyard {
namespace {

enum class Language { kYaml, kJson, kToml };

std::string number_text(double number, Language language) {
  if (std::isnan(number))
    return language == Language::kYaml ? ".nan" : language == Language::kToml ? "nan" : "NaN";
  if (std::isinf(number))
    return std::string(number < 0 ? "-" : "") + (language == Language::kYaml   ? ".inf"
                                                 : language == Language::kToml ? "inf"
                                                                               : "Infinity");
  std::string text = fmt::format("{}", number);
  const std::size_t exponent = text.find('e');
  // PyYAML reads 1e-05 as text, 1.0e-05 as a number.
  if (text.find('.') == std::string::npos) {
    if (exponent == std::string::npos)
      text += ".0";
    else
      text.insert(exponent, ".0");
  }
  return text;
}

std::string scalar(const Value& value, Language language) {
  switch (value.kind()) {
    case Value::Kind::kNull:
      return "null";
    case Value::Kind::kBool:
      return value.as_bool() ? "true" : "false";
    case Value::Kind::kInteger:
      return std::to_string(value.as_integer());
    case Value::Kind::kNumber:
      return number_text(value.as_number(), language);
    case Value::Kind::kString:
      return language == Language::kYaml   ? yaml_scalar(value.as_string())
             : language == Language::kToml ? toml_string(value.as_string())
                                           : json_string(value.as_string());
    default:
      return "";
  }
}

bool has_tables(const Value& list) {
  return std::any_of(list.items().begin(), list.items().end(),
                     [](const Value& item) { return item.is_table() || item.is_array(); });
}

// On one line. TOML has no null: a member or an item without a value is not there.
std::string flow(const Value& value, Language language) {
  const bool toml = language == Language::kToml;
  if (value.is_array()) {
    std::string text = "[";
    for (const Value& item : value.items())
      if (!(toml && item.is_null())) text += (text.size() > 1 ? ", " : "") + flow(item, language);
    return text + "]";
  }
  if (value.is_table()) {
    std::string text = "{";
    for (const Value::Member& member : value.members()) {
      if (toml && member.value.is_null()) continue;
      text += (text.size() > 1 ? ", " : "") +
              (toml ? toml_key(member.key) + " = " : yaml_scalar(member.key) + ": ") +
              flow(member.value, language);
    }
    return text + "}";
  }
  return scalar(value, language);
}

void add_comment(std::string& line, const Comments& comments, const std::string& path) {
  const auto found = comments.find(path);
  if (found != comments.end() && !found->second.empty())
    line += "  # " + comment_text(found->second);
}

void add_yaml(std::string& text, const Value& table, const Comments& comments,
              const std::string& prefix, int indent, bool first_on_line) {
  bool first = first_on_line;
  for (const Value::Member& member : table.members()) {
    const std::string path = prefix.empty() ? member.key : prefix + "." + member.key;
    if (!first) text.append(static_cast<std::size_t>(indent), ' ');
    first = false;
    std::string line = yaml_scalar(member.key) + ":";
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
          text += flow(item, Language::kYaml) + "\n";
      }
    } else {
      line += " " + flow(value, Language::kYaml);
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
      text += json_string(value.members()[i].key) + ": ";
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
    text += scalar(value, Language::kJson);
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
    std::string line = toml_key(member.key) + " = " + flow(member.value, Language::kToml);
    add_comment(line, comments, path);
    text += line + "\n";
  };
  for (const Value::Member& member : document.members())
    if (!member.value.is_table() && !member.value.is_null()) line_of(member.key, member);
  // `path` as comments name it, `header` as TOML writes it.
  const std::function<void(const Value&, const std::string&, const std::string&)> section =
      [&](const Value& table, const std::string& path, const std::string& header) {
        bool headed = false;
        for (const Value::Member& member : table.members()) {
          if (member.value.is_table() || member.value.is_null()) continue;
          if (!headed) text += (text.empty() ? "[" : "\n[") + header + "]\n";
          headed = true;
          line_of(path + "." + member.key, member);
        }
        for (const Value::Member& member : table.members())
          if (member.value.is_table())
            section(member.value, path + "." + member.key, header + "." + toml_key(member.key));
      };
  for (const Value::Member& member : document.members())
    if (member.value.is_table()) section(member.value, member.key, toml_key(member.key));
  return text;
}

}  // namespace steelyard
