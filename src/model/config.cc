#include "model/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "document/edit_distance.h"
#include "model/config_keys.h"

namespace steelyard {
namespace {

struct ActivationName {
  std::string_view name;
  Activation activation;
};
// Keys of transformers' ACT2FN; gelu_new, gelu_fast and gelu_python are written out in Python.
constexpr std::array kActivations = {
    ActivationName{"silu", Activation::kSilu},
    ActivationName{"swish", Activation::kSilu},
    ActivationName{"gelu", Activation::kGeluErf},
    ActivationName{"gelu_pytorch_tanh", Activation::kGeluTanh},
    ActivationName{"gelu_new", Activation::kGeluPython},
    ActivationName{"gelu_fast", Activation::kGeluPython},
    ActivationName{"gelu_python", Activation::kGeluPython},
    ActivationName{"relu", Activation::kRelu},
    ActivationName{"relu2", Activation::kSquaredRelu},
    ActivationName{"quick_gelu", Activation::kQuickGelu},
};

bool holds(const std::vector<std::string_view>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

Config::Config(const Value& object, Diagnostics& diagnostics)
    : object_(object), diagnostics_(diagnostics) {}

// The member of that name or of one of its other names. Two that disagree are a fault, said once.
const Value::Member* Config::member_of(std::string_view key) {
  const bool asked_before = holds(asked_, key);
  if (!asked_before) asked_.push_back(key);
  const Value::Member* found = object_.member(key);
  for (const KeyAlias& row : key_aliases()) {
    if (row.name != key) continue;
    if (!asked_before) asked_.push_back(row.alias);
    const Value::Member* other = object_.member(row.alias);
    if (other == nullptr) continue;
    if (found == nullptr || found->value.is_null()) {
      found = other;
    } else if (!other->value.is_null() && shown(found->value) != shown(other->value) &&
               !holds(disagreed_, key)) {
      disagreed_.push_back(key);
      failed_ = true;
      diagnostics_.push_back(
          {Severity::kError, "E306",
           fmt::format("\"{}\" is {} and \"{}\" is {}: two names of one size", found->key,
                       shown(found->value), other->key, shown(other->value)),
           other->value.place(), "disagrees", "keep one of the two"});
    }
  }
  return found;
}

const Value* Config::value_of(std::string_view key) {
  const Value::Member* member = member_of(key);
  return member == nullptr || member->value.is_null() ? nullptr : &member->value;
}

Place Config::place_of(std::string_view key) {
  const Value::Member* member = member_of(key);
  return member == nullptr ? object_.place() : member->value.place();
}

void Config::add(Severity severity, std::string_view key, std::string code, std::string message,
                 std::string label, std::string help) {
  if (severity == Severity::kError) failed_ = true;
  diagnostics_.push_back({severity, std::move(code), std::move(message), place_of(key),
                          std::move(label), std::move(help)});
}

void Config::refuse(std::string_view key, std::string code, std::string message, std::string label,
                    std::string help) {
  add(Severity::kError, key, std::move(code), std::move(message), std::move(label),
      std::move(help));
}

void Config::warn(std::string_view key, std::string code, std::string message, std::string label,
                  std::string help) {
  add(Severity::kWarning, key, std::move(code), std::move(message), std::move(label),
      std::move(help));
}

void Config::refuse_type(std::string_view key, const Value& value, std::string_view expected) {
  refuse(key, "E303", fmt::format("\"{}\" is {}, {}", key, shown(value), name_of(value.kind())),
         fmt::format("expected {}", expected));
}

std::optional<Checked> Config::read_size(std::string_view key, std::int64_t smallest,
                                         std::int64_t largest) {
  const Value* value = value_of(key);
  if (value == nullptr) return std::nullopt;
  const std::string accepted = fmt::format("a whole number from {} to {}", smallest, largest);
  if (!value->is_integer()) {
    refuse_type(key, *value, accepted);
    return Checked(0);
  }
  const std::int64_t number = value->as_integer();
  if (number < smallest || number > largest) {
    refuse(key, "E304", fmt::format("\"{}\" is {}", key, number),
           fmt::format("expected {}", accepted));
    return Checked(0);
  }
  return Checked(number);
}

Checked Config::size(std::string_view key, std::int64_t largest) {
  if (const auto found = read_size(key, 1, largest)) return *found;
  for (const ClassDefault& row : defaults_)
    if (row.key == key && !is_null(key)) return Checked(row.size);
  refuse(key, "E302",
         is_null(key) ? fmt::format("\"{}\" is null", key) : fmt::format("\"{}\" is missing", key),
         fmt::format("expected a whole number from 1 to {}", largest),
         fmt::format("add \"{}\"; the size of a model is never guessed from its family", key));
  return 0;
}

Checked Config::size_or(std::string_view key, Checked fallback, std::int64_t largest) {
  return read_size(key, 1, largest).value_or(fallback);
}

std::optional<Checked> Config::find_size(std::string_view key, std::int64_t largest) {
  return read_size(key, 1, largest);
}

Checked Config::count_or(std::string_view key, Checked fallback, std::int64_t largest) {
  return read_size(key, 0, largest).value_or(fallback);
}

bool Config::flag_or(std::string_view key, bool fallback) {
  const Value* value = value_of(key);
  if (value == nullptr) return fallback;
  if (value->is_bool()) return value->as_bool();
  refuse_type(key, *value, "true or false");
  return fallback;
}

double Config::fraction_or(std::string_view key, double fallback) {
  const Value* value = value_of(key);
  if (value == nullptr) return fallback;
  if (!value->is_number()) {
    refuse_type(key, *value, "a number from 0 to 1");
    return fallback;
  }
  const double number = value->as_number();
  if (number >= 0 && number <= 1) return number;
  refuse(key, "E304", fmt::format("\"{}\" is {}", key, shown(*value)),
         "expected a number from 0 to 1");
  return fallback;
}

std::optional<double> Config::find_number(std::string_view key) {
  const Value* value = value_of(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number()) {
    refuse_type(key, *value, "a number");
    return std::nullopt;
  }
  if (value->as_number() > 0) return value->as_number();
  refuse(key, "E304", fmt::format("\"{}\" is {}", key, shown(*value)),
         "expected a number above 0, or null");
  return std::nullopt;
}

std::optional<double> Config::find_number_within(std::string_view outer, std::string_view key) {
  const Value* table = value_of(outer);
  if (table == nullptr) return std::nullopt;
  const Value* value = table->find(key);
  if (value == nullptr || !value->is_number()) return std::nullopt;
  return value->as_number();
}

Activation Config::activation_or(std::string_view key, Activation fallback) {
  const Value* value = value_of(key);
  if (value == nullptr) return fallback;
  std::vector<std::string_view> names;
  for (const ActivationName& row : kActivations) {
    if (value->is_string() && value->as_string() == row.name) return row.activation;
    names.push_back(row.name);
  }
  refuse(key, "E303", fmt::format("\"{}\" is {}, an activation not known here", key, shown(*value)),
         fmt::format("expected {}", any_of(names)));
  return fallback;
}

std::optional<std::string> Config::find_word(std::string_view key) {
  const Value* value = value_of(key);
  if (value == nullptr) return std::nullopt;
  if (value->is_string()) return value->as_string();
  refuse_type(key, *value, "a string");
  return std::nullopt;
}

std::optional<std::vector<std::string>> Config::find_words(std::string_view key) {
  const Value* value = value_of(key);
  if (value == nullptr) return std::nullopt;
  std::vector<std::string> words;
  if (value->is_array()) {
    for (const Value& item : value->items())
      if (item.is_string()) words.push_back(item.as_string());
    if (words.size() == value->items().size()) return words;
  }
  refuse_type(key, *value, "a list of strings");
  return std::nullopt;
}

std::optional<std::vector<std::int64_t>> Config::find_numbers(std::string_view key) {
  const Value* value = value_of(key);
  if (value == nullptr) return std::nullopt;
  std::vector<std::int64_t> numbers;
  if (value->is_array()) {
    for (const Value& item : value->items())
      if (item.is_integer()) numbers.push_back(item.as_integer());
    if (numbers.size() == value->items().size()) return numbers;
  }
  refuse_type(key, *value, "a list of whole numbers");
  return std::nullopt;
}

bool Config::is_present(std::string_view key) { return member_of(key) != nullptr; }

bool Config::is_null(std::string_view key) {
  const Value::Member* member = member_of(key);
  return member != nullptr && member->value.is_null();
}

bool Config::is_list(std::string_view key) {
  const Value* value = value_of(key);
  return value != nullptr && value->is_array();
}

bool Config::is_word(std::string_view key) {
  const Value* value = value_of(key);
  return value != nullptr && value->is_string();
}

std::optional<std::int64_t> Config::count_members(std::string_view key) {
  const Value* table = value_of(key);
  if (table == nullptr || !table->is_table()) return std::nullopt;
  return static_cast<std::int64_t>(table->members().size());
}

std::optional<Config> Config::table(std::string_view key) {
  const Value* value = value_of(key);
  if (value == nullptr || !value->is_table()) return std::nullopt;
  return Config(*value, diagnostics_);
}

std::int64_t Config::integer_or(std::string_view key, std::int64_t fallback) {
  const Value* value = value_of(key);
  if (value == nullptr) return fallback;
  if (value->is_integer()) return value->as_integer();
  refuse_type(key, *value, "a whole number");
  return fallback;
}

void Config::know(std::initializer_list<std::string_view> keys) {
  asked_.insert(asked_.end(), keys.begin(), keys.end());
}

Checked Config::quotient(std::string_view dividend_key, Checked dividend,
                         std::string_view divisor_key, Checked divisor) {
  if (dividend <= Checked(0) || divisor <= Checked(0)) return 0;
  if (dividend % divisor == Checked(0)) return dividend / divisor;
  const Value::Member* written = member_of(divisor_key);
  refuse(written == nullptr ? dividend_key : divisor_key, "E305",
         fmt::format("\"{}\" is {}, \"{}\" is {}{}: the first is no multiple of the second",
                     dividend_key, dividend.value(), divisor_key, divisor.value(),
                     written == nullptr ? " when it is not given" : ""),
         fmt::format("must divide {}", dividend.value()));
  return 0;
}

void Config::warn_of_unknown_keys(std::string_view family) {
  for (const Value::Member& member : object_.members()) {
    const std::string_view key = member.key;
    if (holds(asked_, key) || is_harmless_key(key)) continue;
    // A word, a null or something empty makes no tensor; a number, a list, a flag or a table may.
    const Value& value = member.value;
    if (value.is_null() || value.is_string()) continue;
    if (value.is_array() && value.items().empty()) continue;
    if (value.is_table() && value.members().empty()) continue;
    // The nearest name is looked for among hundreds: not for each key of a file of another kind.
    if (is_full(diagnostics_, Severity::kWarning)) {
      count_problem(diagnostics_, Severity::kWarning);
      continue;
    }
    add_problem(
        diagnostics_,
        {Severity::kWarning, "E640",
         fmt::format(
             "\"{}\" is not a key of the family {}: it is not followed, and may change tensors",
             key, family),
         member.key_place(), "not read",
         did_you_mean("key", nearest_names(key, std::span<const std::string_view>(asked_)))});
  }
}

}  // namespace steelyard
