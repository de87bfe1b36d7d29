#include "formats/launch/arguments.h"

#include <fmt/format.h>

#include <algorithm>

#include "document/quoting.h"
#include "document/read.h"
#include "formats/launch/mapping.h"
#include "formats/launch/shell.h"

namespace steelyard {
namespace {

bool is_flag(std::string_view word) {
  if (word.size() < 2 || word.front() != '-') return false;
  if (word.starts_with("--")) return word.size() > 2;
  return word[1] != '.' && !(word[1] >= '0' && word[1] <= '9');  // -1 is a number
}

std::string name_of_flag(std::string_view word) {
  std::string name(word.substr(word.starts_with("--") ? 2 : 1));
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

// {"a": 1} in an argument is a table; everything else a word.
Value argument_value(std::string_view text, const Mark& mark) {
  Value value = typed_value(text);
  if (text.size() > 1 && text.front() == '{' && text.back() == '}') {
    // Places inside of a word are the word's own.
    ReadValue read = read_json(text, mark.source ? mark.source->name : "");
    if (read) value = std::move(*read);
  }
  value.set_mark(mark);
  return value;
}

void put(Value& table, std::string_view name, bool dotted, Value value, const Mark& mark) {
  Value* inner = &table;
  while (dotted) {
    const std::size_t dot = name.find('.');
    if (dot == std::string_view::npos || dot == 0) break;
    const std::string section(name.substr(0, dot));
    Value::Member* member = inner->member(section);
    if (member == nullptr) {
      inner->members().push_back({section, mark, Value::table()});
      member = &inner->members().back();
    } else if (!member->value.is_table()) {
      member->value = Value::table();
    }
    inner = &member->value;
    name.remove_prefix(dot + 1);
  }
  if (Value::Member* member = inner->member(name)) {
    member->value = std::move(value);
    member->key_mark = mark;
  } else {
    inner->members().push_back({std::string(name), mark, std::move(value)});
  }
}

// A launch script's own words may hold variables, ${DATA}; a document's are letters.
bool may_hold_variables(const Value& value) {
  const auto& source = value.mark().source;
  if (source == nullptr || source->name.empty()) return false;  // our own words
  if (source->name == "<stdin>") return source->text.starts_with("#!");
  for (const std::string_view ending : {".yaml", ".yml", ".json"})
    if (source->name.ends_with(ending) ||
        source->name.find(std::string(ending) + " in ") != std::string::npos)
      return false;
  return true;
}

std::string written_word(const Value& value) {
  const std::string word = word_of(value);
  return value.is_string() && may_hold_variables(value) ? shell_word_with_variables(word)
                                                        : shell_word(word);
}

bool has_parts(const Value& value) {
  return value.is_table() ||
         (value.is_array() &&
          std::any_of(value.items().begin(), value.items().end(),
                      [](const Value& item) { return item.is_table() || item.is_array(); }));
}

std::string json_text(const Value& value) {
  switch (value.kind()) {
    case Value::Kind::kTable: {
      std::string text = "{";
      for (const Value::Member& member : value.members())
        text += fmt::format("{}{}: {}", text.size() > 1 ? ", " : "", json_string(member.key),
                            json_text(member.value));
      return text + "}";
    }
    case Value::Kind::kArray: {
      std::string text = "[";
      for (const Value& item : value.items())
        text += (text.size() > 1 ? ", " : "") + json_text(item);
      return text + "]";
    }
    case Value::Kind::kString:
      return json_string(value.as_string());
    case Value::Kind::kNull:
      return "null";
    default:
      return word_of(value);
  }
}

void add_words(std::vector<std::string>& words, const std::string& prefix, const Value& table,
               bool dash) {
  for (const Value::Member& member : table.members()) {
    std::string name = prefix + member.key;
    if (dash) std::replace(name.begin(), name.end(), '_', '-');
    const Value& value = member.value;
    if (value.is_null()) continue;
    if (dash && value.is_bool()) {
      if (value.as_bool()) words.push_back(name);
      continue;
    }
    if (has_parts(value)) {
      words.push_back(name + " " + shell_word(json_text(value)));
    } else if (value.is_array()) {
      std::string line = name;
      for (const Value& item : value.items()) line += " " + written_word(item);
      words.push_back(line);
    } else {
      // --name -x would be two flags.
      words.push_back(name + (begins_like_a_flag(value) ? "=" : " ") + written_word(value));
    }
  }
}

}  // namespace

Arguments read_arguments(std::span<const Value> words, bool dotted) {
  Arguments arguments;
  std::size_t i = 0;
  for (; i < words.size() && !is_flag(words[i].as_string()); ++i)
    if (!words[i].as_string().empty()) arguments.words.push_back(words[i]);
  while (i < words.size()) {
    const Value& flag = words[i];
    ++i;
    std::string_view text = flag.as_string();
    if (!is_flag(text)) continue;
    const std::size_t sign = text.find('=');
    if (sign != std::string_view::npos) {
      put(arguments.flags, name_of_flag(text.substr(0, sign)), dotted,
          argument_value(text.substr(sign + 1), flag.mark()), flag.mark());
      continue;
    }
    std::vector<Value> values;
    for (; i < words.size() && !is_flag(words[i].as_string()); ++i)
      // A variable behind the value, as $MORE_WORDS: without it there is none.
      if (values.empty() || only_hole(words[i].as_string()).empty())
        values.push_back(argument_value(words[i].as_string(), words[i].mark()));
    Value value = Value::boolean(true);
    if (values.size() == 1) {
      value = std::move(values.front());
    } else if (!values.empty()) {
      value = Value::array(std::move(values));
    }
    if (value.mark().source == nullptr || value.is_array()) value.set_mark(flag.mark());
    put(arguments.flags, name_of_flag(text), dotted, std::move(value), flag.mark());
  }
  return arguments;
}

void lay_over_assignments(Value& document, std::span<const Value> words) {
  for (const Value& word : words) {
    std::string_view text = word.as_string();
    const std::size_t sign = text.find('=');
    if (sign == std::string_view::npos || sign == 0) continue;
    std::string_view name = text.substr(0, sign);
    while (name.starts_with("+") || name.starts_with("~") || name.starts_with("-"))
      name.remove_prefix(1);
    put(document, name, true, argument_value(text.substr(sign + 1), word.mark()), word.mark());
  }
}

bool begins_like_a_flag(const Value& value) {
  return value.is_string() && value.as_string().starts_with("-") &&
         !typed_value(value.as_string()).is_number();
}

std::vector<std::string> argument_words(const Value& flags, bool dash) {
  std::vector<std::string> words;
  add_words(words, "--", flags, dash);
  return words;
}

}  // namespace steelyard
