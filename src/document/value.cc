#include "document/value.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace steelyard {
namespace {

// The line numbered `line` of a source, without its end.
std::string line_of(const Source& source, int line) {
  std::size_t start = 0;
  for (int current = source.first_line; current < line; ++current) {
    const std::size_t end = source.text.find('\n', start);
    if (end == std::string::npos) return {};
    start = end + 1;
  }
  std::string text = source.text.substr(start, source.text.find('\n', start) - start);
  if (!text.empty() && text.back() == '\r') text.pop_back();
  if (text.starts_with("\xEF\xBB\xBF")) text.erase(0, 3);  // columns count from after the mark
  return text;
}

std::pair<std::string_view, std::string_view> split_first(std::string_view path) {
  const std::size_t dot = path.find('.');
  if (dot == std::string_view::npos) return {path, {}};
  return {path.substr(0, dot), path.substr(dot + 1)};
}

}  // namespace

Place Mark::place() const {
  Place place;
  if (source == nullptr) return place;
  place.source = source->name;
  place.line = line;
  place.column = column;
  place.length = length;
  place.text = line > 0 ? line_of(*source, line) : source->text;
  return place;
}

Mark mark_of(const Place& place) {
  auto source = std::make_shared<Source>();
  source->name = place.source;
  source->text = place.text;
  source->first_line = std::max(place.line, 1);
  return Mark{std::move(source), place.line, place.column, place.length};
}

Value Value::boolean(bool truth) {
  Value value;
  value.content_ = truth;
  return value;
}
Value Value::integer(std::int64_t number) {
  Value value;
  value.content_ = number;
  return value;
}
Value Value::number(double number) {
  Value value;
  value.content_ = number;
  return value;
}
Value Value::string(std::string text) {
  Value value;
  value.content_ = std::move(text);
  return value;
}
Value Value::array() { return array(Array()); }
Value Value::table() { return table(Table()); }
Value Value::array(Array items) {
  Value value;
  value.content_ = std::move(items);
  return value;
}
Value Value::table(Table members) {
  Value value;
  value.content_ = std::move(members);
  return value;
}

double Value::as_number() const {
  if (is_integer()) return static_cast<double>(as_integer());
  return std::get<double>(content_);
}

const Value::Member* Value::member(std::string_view key) const {
  if (!is_table()) return nullptr;
  for (const Member& member : members())
    if (member.key == key) return &member;
  return nullptr;
}
Value::Member* Value::member(std::string_view key) {
  return const_cast<Member*>(std::as_const(*this).member(key));
}
const Value* Value::find(std::string_view key) const {
  const Member* found = member(key);
  return found == nullptr ? nullptr : &found->value;
}
const Value* Value::at(std::string_view path) const {
  const Value* here = this;
  while (here != nullptr && !path.empty()) {
    const auto [first, rest] = split_first(path);
    here = here->find(first);
    path = rest;
  }
  return here;
}

Place Value::Member::whole_place() const {
  Place place = key_place();
  const Mark& end = value.mark();
  if (end.source == key_mark.source && end.line == key_mark.line && end.line > 0 &&
      end.column > key_mark.column)
    place.length = end.column + end.length - key_mark.column;
  return place;
}

std::string_view name_of(Value::Kind kind) {
  switch (kind) {
    case Value::Kind::kNull:
      return "null";
    case Value::Kind::kBool:
      return "true or false";
    case Value::Kind::kInteger:
      return "a whole number";
    case Value::Kind::kNumber:
      return "a number";
    case Value::Kind::kString:
      return "a string";
    case Value::Kind::kArray:
      return "a list";
    case Value::Kind::kTable:
      return "a table";
  }
  return "";
}

std::string shown(const Value& value) {
  constexpr std::size_t kLongest = 60;
  std::string text;
  switch (value.kind()) {
    case Value::Kind::kNull:
      return "null";
    case Value::Kind::kBool:
      return value.as_bool() ? "true" : "false";
    case Value::Kind::kInteger:
      return fmt::format("{}", value.as_integer());
    case Value::Kind::kNumber:
      return fmt::format("{}", value.as_number());
    case Value::Kind::kString:
      text = fmt::format("\"{}\"", value.as_string());
      break;
    case Value::Kind::kTable:
      return value.members().empty() ? "{}" : "{...}";
    case Value::Kind::kArray:
      text = "[";
      for (const Value& item : value.items()) {
        if (text.size() > kLongest) break;
        text += text.size() > 1 ? ", " + shown(item) : shown(item);
      }
      text += "]";
  }
  if (text.size() <= kLongest) return text;
  std::size_t cut = kLongest - 4;
  while (cut > 0 && (static_cast<unsigned char>(text[cut]) & 0xC0U) == 0x80U) --cut;
  return text.substr(0, cut) + "..." + text.back();
}

void set_path(Value& table, std::string_view path, Value value, const Place& place) {
  const Mark mark = mark_of(place);
  Value* here = &table;
  while (true) {
    if (!here->is_table()) {
      *here = Value::table();
      here->set_mark(mark);
    }
    const auto [first, rest] = split_first(path);
    Value::Member* member = here->member(first);
    if (member == nullptr) {
      here->members().push_back({std::string(first), mark, Value()});
      member = &here->members().back();
    }
    if (rest.empty()) {
      value.set_mark(mark);
      member->key_mark = mark;
      member->value = std::move(value);
      return;
    }
    here = &member->value;
    path = rest;
  }
}

bool remove_path(Value& table, std::string_view path) {
  if (!table.is_table()) return false;
  const auto [first, rest] = split_first(path);
  auto& members = table.members();
  const auto found = std::find_if(members.begin(), members.end(),
                                  [key = first](const Value::Member& m) { return m.key == key; });
  if (found == members.end()) return false;
  if (!rest.empty()) return remove_path(found->value, rest);
  members.erase(found);
  return true;
}

}  // namespace steelyard
