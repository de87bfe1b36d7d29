#include "formats/launch/mapping.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "document/edit_distance.h"
#include "formats/launch/shell.h"
#include "job/keys.h"

namespace steelyard {
namespace {

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return result;
}

template <class Visit>
void each_part(std::string_view list, char separator, const Visit& visit) {
  while (!list.empty()) {
    const std::size_t end = std::min(list.find(separator), list.size());
    if (!visit(list.substr(0, end))) return;
    list.remove_prefix(std::min(end + 1, list.size()));
  }
}

}  // namespace

bool Imported::failed() const {
  return std::any_of(problems.begin(), problems.end(), [](const Diagnostic& problem) {
    return problem.severity == Severity::kError;
  });
}

std::string nearest_help(std::string_view word, std::span<const std::string_view> names) {
  return did_you_mean("key", nearest_names(word, names));
}

std::optional<std::string> ours_of(std::string_view words, std::string_view theirs) {
  std::optional<std::string> found;
  const std::string wanted = lower(theirs);
  each_part(words, '|', [&](std::string_view pair) {
    const std::size_t sign = pair.find('=');
    if (lower(pair.substr(0, sign)) == wanted) found = std::string(pair.substr(sign + 1));
    return !found;
  });
  return found;
}

std::optional<std::string> theirs_of(std::string_view words, std::string_view ours) {
  std::optional<std::string> found;
  each_part(words, '|', [&](std::string_view pair) {
    const std::size_t sign = pair.find('=');
    if (pair.substr(sign + 1) == ours) found = std::string(pair.substr(0, sign));
    return !found;
  });
  return found;
}

std::string word_of(const Value& value) {
  switch (value.kind()) {
    case Value::Kind::kBool:
      return value.as_bool() ? "true" : "false";
    case Value::Kind::kInteger:
      return std::to_string(value.as_integer());
    case Value::Kind::kNumber:
      return fmt::format("{}", value.as_number());
    case Value::Kind::kString:
      return value.as_string();
    default:
      return "";
  }
}

std::optional<bool> truth_of(const Value& value) {
  const std::string word = lower(word_of(value));
  if (word == "true" || word == "yes" || word == "1" || word == "on") return true;
  if (word == "false" || word == "no" || word == "0" || word == "off" || word == "none")
    return false;
  return std::nullopt;
}

std::optional<std::int64_t> count_of(const Value& value) {
  if (value.is_integer()) return value.as_integer();
  // 5e8 is how JSON files write bucket sizes.
  if (value.is_number()) {
    const double number = value.as_number();
    if (std::floor(number) == number && std::fabs(number) < 9e15)
      return static_cast<std::int64_t>(number);
    return std::nullopt;
  }
  if (!value.is_string()) return std::nullopt;
  const Value typed = typed_value(value.as_string());
  return typed.is_number() ? count_of(typed) : std::nullopt;
}

Value typed_value(std::string_view text) {
  if (text == "true" || text == "True") return Value::boolean(true);
  if (text == "false" || text == "False") return Value::boolean(false);
  std::string digits;
  bool number = !text.empty();
  bool fraction = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '_' && i > 0 && i + 1 < text.size()) continue;
    digits.push_back(c);
    if (c == '.' || c == 'e' || c == 'E') fraction = true;
    const bool sign =
        (c == '-' || c == '+') && (i == 0 || text[i - 1] == 'e' || text[i - 1] == 'E');
    if (!((c >= '0' && c <= '9') || c == '.' || ((c == 'e' || c == 'E') && i > 0) || sign))
      number = false;
  }
  if (number && !fraction) {
    std::int64_t whole = 0;
    const char* begin = digits.data() + (digits.front() == '+' ? 1 : 0);
    const auto [end, fault] = std::from_chars(begin, digits.data() + digits.size(), whole);
    if (fault == std::errc() && end == digits.data() + digits.size()) return Value::integer(whole);
  } else if (number && digits != ".") {
    char* end = nullptr;
    const double value = std::strtod(digits.c_str(), &end);
    if (end == digits.c_str() + digits.size() && std::isfinite(value)) return Value::number(value);
  }
  return Value::string(std::string(text));
}

const Value* ConfigReader::take(std::string_view path) {
  const Value* value = theirs_.at(path);
  if (value == nullptr) return nullptr;
  taken_.insert(value);
  return value->is_null() ? nullptr : value;
}

std::string reason_of_hole(std::string_view word, const Imported& into) {
  const std::size_t from = std::min(word.find("${"), word.size());
  const std::string name(
      word.substr(std::min(from + 2, word.size()),
                  std::min(word.find('}', from), word.size()) - std::min(from + 2, word.size())));
  if (const auto known = into.holes.find(name); known != into.holes.end()) return known->second;
  if (name == "command") return "what a command prints";
  if (name == "arithmetic" || name == "expression") return "an expression that is not known here";
  if (!name.empty() && name.find_first_not_of("0123456789#") == std::string::npos)
    return fmt::format("${} is not given: -- VALUE ... behind the script", name);
  return fmt::format("${} is not given: --env {}=VALUE", name, name);
}

void ask(Imported& into, std::string_view key, std::string why, const Mark& at) {
  into.asked.emplace(std::string(key), Asked{std::move(why), at});
}

void settle_asked(Imported& into) {
  if (into.asked.count("model") > 0) remove_path(into.run, "model");
  Value list = Value::array({});
  if (const Value* before = into.run.at("training.unweighed")) list = *before;
  const std::size_t many = list.items().size();
  for (const auto& entry : into.asked) {
    const std::string& key = entry.first;
    const Asked& asked = entry.second;
    if (find_key_by_path(key) != nullptr && into.run.at(key) != nullptr) continue;
    std::erase_if(into.unsaid, [&](const Unsaid& unsaid) { return unsaid.key == key; });
    into.unsaid.push_back({key, "", asked.why});
    // A run without a model is asked for one as it is.
    if (key == "model" || key == "cluster.device" || key == "cluster.devices") continue;
    Value text = Value::string(fmt::format("{}: {}", key, asked.why));
    text.set_mark(asked.at);
    if (list.mark().source == nullptr) list.set_mark(asked.at);
    list.items().push_back(std::move(text));
  }
  if (list.items().size() == many) return;
  const Place place = list.place();
  set_path(into.run, "training.unweighed", std::move(list), place);
}

bool ConfigReader::asks(std::string_view ours, const Value& value) {
  if (!value.is_string() || !has_hole(value.as_string())) return false;
  ask(into_, ours, reason_of_hole(value.as_string(), into_), value.mark());
  return true;
}

std::optional<bool> ConfigReader::truth(std::string_view path) {
  const Value* value = take(path);
  if (value == nullptr || asks(path, *value)) return std::nullopt;
  const std::optional<bool> truth = truth_of(*value);
  if (!truth && word_of(*value) != "auto")
    refuse(*value, fmt::format("{} is not true or false", path), "expected true or false");
  return truth;
}

const Value* ConfigReader::on(std::string_view path) {
  const Value* value = take(path);
  return value != nullptr && truth_of(*value).value_or(false) ? value : nullptr;
}

std::optional<std::int64_t> ConfigReader::count(std::string_view path) {
  const Value* value = take(path);
  if (value == nullptr || word_of(*value) == "auto" || asks(path, *value)) return std::nullopt;
  const std::optional<std::int64_t> count = count_of(*value);
  if (!count)
    refuse(*value, fmt::format("{} is not a whole number", path), "expected a whole number");
  return count;
}

std::optional<std::string> ConfigReader::word(std::string_view path) {
  const Value* value = take(path);
  if (value == nullptr) return std::nullopt;
  if (value->is_string() && !only_hole(value->as_string()).empty() && asks(path, *value))
    return std::nullopt;
  return word_of(*value);
}

std::vector<Value> words_of(const Value* value) {
  if (value == nullptr) return {};
  if (value->is_array()) return value->items();
  std::vector<Value> words;
  std::string word;
  for (const char c : word_of(*value) + " ") {
    if (std::string_view(" ,[]").find(c) == std::string_view::npos) {
      word.push_back(c);
    } else if (!word.empty()) {
      words.push_back(Value::string(std::exchange(word, {})));
      words.back().set_mark(value->mark());
    }
  }
  return words;
}

void ConfigReader::rows(std::span<const Row> rows) {
  for (const Row& row : rows) {
    const Value* value = take(row.theirs);
    each_part(row.also, '|', [&](std::string_view path) {
      const Value* other = take(path);
      if (value == nullptr) value = other;
      return true;
    });
    if (value != nullptr && word_of(*value) == "auto") value = nullptr;
    if (value == nullptr) {
      if (!row.absent.empty())
        take_default(row.ours, typed_value(row.absent),
                     fmt::format("{} says nothing of {}", format_, row.theirs));
      continue;
    }
    const Key* key = find_key_by_path(row.ours);
    const bool is_text = row.words.empty() && (key == nullptr || key->kind == KeyKind::kText ||
                                               key->kind == KeyKind::kModel);
    if (!(is_text && only_hole(word_of(*value)).empty()) && asks(row.ours, *value)) continue;
    if (!row.words.empty()) {
      const auto ours = ours_of(row.words, word_of(*value));
      if (!ours) {
        std::string known;
        each_part(row.words, '|', [&](std::string_view pair) {
          known += (known.empty() ? "" : ", ") + std::string(pair.substr(0, pair.find('=')));
          return true;
        });
        refuse(*value, fmt::format("{}: \"{}\" is not understood", row.theirs, word_of(*value)),
               "known are " + known);
      } else if (!ours->empty()) {
        say(row.ours, typed_value(*ours), *value);
      }
      continue;
    }
    if (key != nullptr && (key->kind == KeyKind::kCount || key->kind == KeyKind::kSequence)) {
      if (const auto number = count_of(*value))
        say(row.ours, Value::integer(*number), *value);
      else
        refuse(*value, fmt::format("{} is not a whole number", row.theirs),
               "expected a whole number");
    } else if (key != nullptr && key->kind == KeyKind::kSwitch) {
      if (const auto switched = truth_of(*value))
        say(row.ours, Value::boolean(*switched), *value);
      else
        refuse(*value, fmt::format("{} is not true or false", row.theirs),
               "expected true or false");
    } else {
      say(row.ours, *value, *value);
    }
  }
}

void ConfigReader::say(std::string_view ours, Value value, const Value& at) {
  value.set_mark(at.mark());
  if (value.is_string() && !only_hole(value.as_string()).empty() && asks(ours, value)) return;
  if (const Value* before = into_.run.at(ours)) {
    const bool was_default =
        std::erase_if(into_.unsaid, [&](const Unsaid& unsaid) { return unsaid.key == ours; }) > 0;
    if (!was_default && shown(*before) != shown(value)) {
      const Place first = before->place();
      refuse(at, fmt::format("{} is said twice: {} and {}", ours, shown(*before), shown(value)),
             fmt::format("{}:{} says {}", first.source, first.line, shown(*before)),
             "the engine would refuse or follow one of the two: make them equal");
      return;
    }
  }
  std::erase_if(into_.unsaid, [&](const Unsaid& unsaid) { return unsaid.key == ours; });
  set_path(into_.run, ours, std::move(value), at.place());
}

void ConfigReader::take_default(std::string_view ours, Value value, std::string_view why) {
  if (has(ours) || into_.asked.count(ours) > 0) return;
  Place place;
  place.source = fmt::format("<{}>", why);
  value.set_mark(mark_of(place));
  std::erase_if(into_.unsaid, [&](const Unsaid& unsaid) { return unsaid.key == ours; });
  into_.unsaid.push_back({std::string(ours), word_of(value), std::string(why)});
  set_path(into_.run, ours, std::move(value), place);
}

bool ConfigReader::is_asked(std::string_view ours) const {
  return std::any_of(into_.unsaid.begin(), into_.unsaid.end(),
                     [&](const Unsaid& unsaid) { return unsaid.key == ours; });
}

void ConfigReader::lacks(std::string_view ours, std::string_view why) {
  if (has(ours) || is_asked(ours)) return;
  into_.unsaid.push_back({std::string(ours), "", std::string(why)});
}

void ConfigReader::refuse(const Value& at, std::string message, std::string label,
                          std::string help) {
  add_problem(into_.problems, {Severity::kError, "E601", std::move(message), at.place(),
                               std::move(label), std::move(help)});
}

void ConfigReader::unweighed(const Value& at, std::string_view theirs, std::string_view why) {
  constexpr std::string_view kOurs = "training.unweighed";
  Value text = Value::string(fmt::format("{}: {}", theirs, why));
  text.set_mark(at.mark());
  if (const Value* before = into_.run.at(kOurs)) {
    Value list = *before;
    list.items().push_back(std::move(text));
    set_path(into_.run, kOurs, std::move(list), at.place());
    return;
  }
  Value list = Value::array({std::move(text)});
  list.set_mark(at.mark());
  set_path(into_.run, kOurs, std::move(list), at.place());
}

// What is off, empty or null asks for nothing.
void ConfigReader::unweighed(std::span<const UnweighedKey> keys) {
  for (const UnweighedKey& key : keys) {
    const Value* value = theirs_.at(key.theirs);
    if (value == nullptr || value->is_null()) continue;
    if (value->is_array()   ? value->items().empty()
        : value->is_table() ? value->members().empty()
                            : word_of(*value).empty() || truth_of(*value) == std::optional(false))
      continue;
    if (key.is_small)
      warn(*value, fmt::format("{} is not weighed", key.theirs), std::string(key.why));
    else
      unweighed(*value, key.theirs, key.why);
  }
}

void ConfigReader::warn(const Value& at, std::string message, std::string label, std::string help) {
  add_problem(into_.problems, {Severity::kWarning, "E602", std::move(message), at.place(),
                               std::move(label), std::move(help)});
}

std::optional<Value> ConfigReader::rest_of(const Value& value) const {
  if (taken_.count(&value) > 0) return std::nullopt;
  if (!value.is_table()) return value.is_null() ? std::nullopt : std::optional(value);
  Value rest = Value::table();
  for (const Value::Member& member : value.members())
    if (std::optional<Value> inner = rest_of(member.value))
      rest.members().push_back({member.key, member.key_mark, std::move(*inner)});
  if (rest.members().empty()) return std::nullopt;
  rest.set_mark(value.mark());
  return rest;
}

void ConfigReader::idle(std::initializer_list<std::string_view> paths) {
  for (const std::string_view path : paths) into_.idle.insert(fmt::format("{}.{}", format_, path));
}

void ConfigReader::carry_rest() {
  into_.documents.push_back({std::string(format_), theirs_});
  std::optional<Value> rest = rest_of(theirs_);
  if (!rest || !rest->is_table()) return;
  Value* carried = nullptr;
  if (into_.run.find("carried") == nullptr)
    set_path(into_.run, "carried", Value::table(), theirs_.place());
  carried = &into_.run.member("carried")->value;
  if (Value::Member* own = carried->member(format_)) {
    for (Value::Member& member : rest->members())
      if (own->value.member(member.key) == nullptr)
        own->value.members().push_back(std::move(member));
  } else {
    carried->members().push_back({std::string(format_), theirs_.mark(), std::move(*rest)});
  }
}

}  // namespace steelyard
