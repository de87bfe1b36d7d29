// Words without quotes: numbers, switches, nothing, or text.
#include <charconv>
#include <cstdlib>

#include "document/yaml_reader.h"

namespace steelyard {
namespace {

bool is_one_of(std::string_view word, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

std::optional<std::int64_t> whole_number(std::string_view word) {
  bool minus = false;
  if (!word.empty() && (word.front() == '-' || word.front() == '+')) {
    minus = word.front() == '-';
    word.remove_prefix(1);
  }
  int base = 10;
  if (word.starts_with("0x")) {
    base = 16;
    word.remove_prefix(2);
  } else if (word.starts_with("0b")) {
    base = 2;
    word.remove_prefix(2);
  } else if (word.size() > 1 && word.front() == '0') {
    base = 8;
    word.remove_prefix(word[1] == 'o' ? 2 : 1);
  }
  std::string digits;
  for (const char c : word)
    if (c != '_') digits.push_back(c);
  if (digits.empty() || word.front() == '_') return std::nullopt;
  std::int64_t number = 0;
  const auto [end, fault] =
      std::from_chars(digits.data(), digits.data() + digits.size(), number, base);
  if (fault != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return minus ? -number : number;
}

// PyYAML wants a dot, and a sign in the exponent: 1.0e-5 is a number, 1e-5 and 1.0e5 are text.
std::optional<double> fraction(std::string_view word) {
  std::string digits;
  bool dot = false;
  bool digit = false;
  for (std::size_t i = 0; i < word.size(); ++i) {
    const char c = word[i];
    if (c >= '0' && c <= '9') {
      digit = true;
    } else if (c == '.') {
      if (dot) return std::nullopt;
      dot = true;
    } else if (c == '_' && digit) {
      continue;
    } else if ((c == 'e' || c == 'E') && dot && digit) {
      if (i + 2 >= word.size() || (word[i + 1] != '-' && word[i + 1] != '+')) return std::nullopt;
      if (word.find_first_not_of("0123456789", i + 2) != std::string_view::npos)
        return std::nullopt;
      digits += word.substr(i);
      break;
    } else if (!((c == '-' || c == '+') && i == 0)) {
      return std::nullopt;
    }
    digits.push_back(c);
  }
  if (!dot || !digit) return std::nullopt;
  return std::strtod(digits.c_str(), nullptr);
}

}  // namespace

Value yaml_plain_value(std::string_view word) {
  if (is_one_of(word, {"", "~", "null", "Null", "NULL"})) return {};
  if (is_one_of(word, {"true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON"}))
    return Value::boolean(true);
  if (is_one_of(word, {"false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF"}))
    return Value::boolean(false);
  if (const auto number = whole_number(word)) return Value::integer(*number);
  if (const auto number = fraction(word)) return Value::number(*number);
  return Value::string(std::string(word));
}

}  // namespace steelyard
