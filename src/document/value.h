// What a document says, whatever it was written in: JSON, TOML or flags, with the place of every word.
//
//   [training]                          table
//   sequence_length = 8192              "training" -> table, "sequence_length" -> integer, at run.toml:2
//
//   const Value* length = document.at("training.sequence_length");
//   length->place()                     run.toml:2:19, with the line's text for the caret
//
// Keys keep the order in which they were written. A Value is a value: copies share only the text of
// the document, which is kept so that an error can show the line it is about.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "document/diagnostic.h"

namespace steelyard {

// One text that was read. Lines are cut out of it only when an error shows them.
struct Source {
  // Where a stretch of a long text begins, so that a place in it is found without reading all before it.
  struct Stretch {
    int line = 0;
    int column = 0;
  };
  std::string name;                // file name, flag, or "<jobs>:17"
  std::string text;                // all of it; of a flag, the words as typed; may be empty
  int first_line = 1;              // the number of the first line of `text`
  int first_column = 1;            // of the first character of `text`
  std::vector<Stretch> stretches;  // of a long text, one every few kilobytes
};
// With the stretches of a long text.
std::shared_ptr<const Source> source_of(std::string_view name, std::string_view text);

// A stretch of a source. Small, so that every value can carry one.
struct Mark {
  std::shared_ptr<const Source> source;
  int line = 0;    // 1-based; 0: unknown
  int column = 0;  // 1-based, in characters
  int length = 0;  // in characters

  Place place() const;
};
Mark mark_of(const Place& place);

class Value {
 public:
  enum class Kind : std::uint8_t { kNull, kBool, kInteger, kNumber, kString, kArray, kTable };
  struct Member;
  using Array = std::vector<Value>;
  using Table = std::vector<Member>;

  Value() = default;  // null
  static Value boolean(bool truth);
  static Value integer(std::int64_t number);
  static Value number(double number);
  static Value string(std::string text);
  // Without default arguments: clang would need all of Member for them, which is not known yet.
  static Value array();
  static Value array(Array items);
  static Value table();
  static Value table(Table members);

  Kind kind() const { return static_cast<Kind>(content_.index()); }
  bool is_null() const { return kind() == Kind::kNull; }
  bool is_bool() const { return kind() == Kind::kBool; }
  bool is_integer() const { return kind() == Kind::kInteger; }
  bool is_number() const { return kind() == Kind::kInteger || kind() == Kind::kNumber; }
  bool is_string() const { return kind() == Kind::kString; }
  bool is_array() const { return kind() == Kind::kArray; }
  bool is_table() const { return kind() == Kind::kTable; }

  // Each needs its kind: ask first.
  bool as_bool() const { return std::get<bool>(content_); }
  std::int64_t as_integer() const { return std::get<std::int64_t>(content_); }
  double as_number() const;  // of an integer too
  const std::string& as_string() const { return std::get<std::string>(content_); }
  const Array& items() const { return std::get<Array>(content_); }
  Array& items() { return std::get<Array>(content_); }
  const Table& members() const { return std::get<Table>(content_); }
  Table& members() { return std::get<Table>(content_); }

  // The member of that key, or null: also when this is no table.
  const Member* member(std::string_view key) const;
  Member* member(std::string_view key);
  const Value* find(std::string_view key) const;
  // The value at a dotted path, or null: at("training.sequence_length").
  const Value* at(std::string_view path) const;

  Place place() const { return mark_.place(); }
  const Mark& mark() const { return mark_; }
  void set_mark(Mark mark) { mark_ = std::move(mark); }

 private:
  std::variant<std::monostate, bool, std::int64_t, double, std::string, Array, Table> content_;
  Mark mark_;
};

struct Value::Member {
  std::string key;
  Mark key_mark;
  Value value;

  Place key_place() const { return key_mark.place(); }
  Place whole_place() const;  // `key = value` when both stand on one line, else the key
};

std::string_view name_of(Value::Kind kind);  // "string", "whole number", ... as an error says it

// The value as a person would type it: `8192`, `"fsdp2"`, `[1, 2]`. Long ones are cut.
std::string shown(const Value& value);

// Sets the value at a dotted path and makes the tables on the way; both then stand at `place`.
// Something there that is not a table is replaced: the later word wins, and says where it was said.
void set_path(Value& table, std::string_view path, Value value, const Place& place);

// Takes away the value at a dotted path; false when there was none.
bool remove_path(Value& table, std::string_view path);

}  // namespace steelyard
