#include "job/said_value.h"

#include <optional>

#include "quantity/parse.h"

namespace steelyard {
namespace {

Value marked(Value value, const Place& place) {
  value.set_mark(mark_of(place));
  return value;
}

// Suffixes keep their text: what "8k" means is the key's business.
std::optional<Value> plain_number(std::string_view text) {
  if (const Parsed<std::int64_t> whole = parse_count(text)) return Value::integer(*whole);
  if (!text.empty() && text.front() == '-')
    if (const Parsed<std::int64_t> whole = parse_count(text.substr(1)))
      return Value::integer(-*whole);
  if (const Parsed<double> number = parse_number(text)) return Value::number(*number);
  return std::nullopt;
}

Value item(KeyKind kind, std::string_view text) {
  switch (kind) {
    case KeyKind::kCount:
    case KeyKind::kCounts:
    case KeyKind::kSequence:
    case KeyKind::kBytes:
    case KeyKind::kNumber:
    case KeyKind::kFraction:
    case KeyKind::kClip:
    case KeyKind::kSwitch:
      if (text == "true" || text == "false") return Value::boolean(text == "true");
      if (auto number = plain_number(text)) return std::move(*number);
      break;
    default:
      break;
  }
  return Value::string(std::string(text));
}

bool is_list(KeyKind kind) {
  return kind == KeyKind::kNames || kind == KeyKind::kTexts || kind == KeyKind::kCounts;
}

}  // namespace

Value said_value(const Key& key, std::string_view text, const Place& place) {
  // One word that means all of them is no list of one.
  if (!is_list(key.kind) || (key.kind == KeyKind::kTexts && text == "all-linear"))
    return marked(item(key.kind, text), place);
  // A list may come as a,b or as a suggestion writes it, ["a", "b"].
  Value::Array items;
  std::string word;
  for (const char character : text) {
    if (character == '[' || character == ']' || character == '"' || character == ' ') continue;
    if (character == ',') {
      items.push_back(marked(item(key.kind, word), place));
      word.clear();
    } else {
      word.push_back(character);
    }
  }
  if (!word.empty() || items.empty()) items.push_back(marked(item(key.kind, word), place));
  return marked(Value::array(std::move(items)), place);
}

void say(Value& document, std::string_view key, std::string_view text, const Place& place) {
  const Key* known = find_key_by_path(key);
  if (known == nullptr)
    set_path(document, std::string(key), marked(Value::string(std::string(text)), place), place);
  else
    set_path(document, known->path, said_value(*known, text, place), place);
}

}  // namespace steelyard
