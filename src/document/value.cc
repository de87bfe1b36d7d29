#include "document/value.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "document/printable.h"

namespace steelyard {
namespace {

constexpr std::size_t kStretch = 4096;
// A line is shown whole up to here; of a longer one a window.
constexpr std::size_t kLongestExcerpt = 1024;
constexpr std::size_t kBeforeColumn = 400;

bool starts_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) != 0x80U; }

// Reads on from a byte whose line and column are known.
struct Reading {
  std::size_t byte = 0;
  int line = 1;
  int column = 1;

  void step(std::string_view text) {
    if (text[byte] == '\n') {
      ++line;
      column = 1;
    } else if (starts_character(text[byte])) {
      ++column;
    }
    ++byte;
  }
};

// Where a line and column stand in the text; columns count from after a byte order mark.
Reading reading_at(const Source& source, int line, int column) {
  const auto begins_behind = [](const std::pair<int, int>& wanted, const Source::Stretch& stretch) {
    return wanted < std::pair(stretch.line, stretch.column);
  };
  Reading at{0, source.first_line, source.first_column};
  const auto behind = std::upper_bound(source.stretches.begin(), source.stretches.end(),
                                       std::pair(line, column), begins_behind);
  if (behind != source.stretches.begin()) {
    const auto stretch = behind - 1;
    at = {static_cast<std::size_t>(stretch - source.stretches.begin()) * kStretch, stretch->line,
          stretch->column};
  } else if (std::string_view(source.text).starts_with("\xEF\xBB\xBF")) {
    at.byte = 3;
  }
  while (at.byte < source.text.size() && at.line < line) at.step(source.text);
  while (at.byte < source.text.size() && at.column < column && source.text[at.byte] != '\n')
    at.step(source.text);
  while (at.byte < source.text.size() && !starts_character(source.text[at.byte])) ++at.byte;
  return at;
}

// The line, or the window of a long one around the column: its text and where that begins.
void show_line(Place& place, const Source& source, int line, int column) {
  const std::string_view text = source.text;
  const Reading at = reading_at(source, line, std::max(column, source.first_column));
  if (at.line < line) return;
  std::size_t from = at.byte;
  place.text_column = at.column;
  while (from > 0 && text[from - 1] != '\n' && at.byte - from < kBeforeColumn) {
    --from;
    if (starts_character(text[from])) --place.text_column;
  }
  while (from < at.byte && !starts_character(text[from])) ++from;
  std::size_t upto = from;
  while (upto < text.size() && text[upto] != '\n' && upto - from < kLongestExcerpt) ++upto;
  while (upto > from && upto < text.size() && !starts_character(text[upto])) --upto;
  std::string_view shown = text.substr(from, upto - from);
  if (shown.starts_with("\xEF\xBB\xBF")) {
    shown.remove_prefix(3);
    place.text_column = 1;
  }
  if (shown.ends_with('\r')) shown.remove_suffix(1);
  place.text = shown;
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
  show_line(place, *source, line > 0 ? line : source->first_line, column);
  return place;
}

std::shared_ptr<const Source> source_of(std::string_view name, std::string_view text) {
  auto source = std::make_shared<Source>(Source{std::string(name), std::string(text), 1, 1, {}});
  if (text.size() <= kStretch) return source;
  source->stretches.reserve(text.size() / kStretch + 1);
  Reading at;
  if (text.starts_with("\xEF\xBB\xBF")) at.column = 0;
  while (at.byte < text.size()) {
    if (at.byte % kStretch == 0) source->stretches.push_back({at.line, at.column});
    at.step(text);
  }
  return source;
}

Mark mark_of(const Place& place) {
  auto source = std::make_shared<Source>();
  source->name = place.source;
  source->text = place.text;
  source->first_line = std::max(place.line, 1);
  source->first_column = place.text_column;
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
      text = fmt::format("\"{}\"",
                         printable(std::string_view(value.as_string()).substr(0, 2 * kLongest)));
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
