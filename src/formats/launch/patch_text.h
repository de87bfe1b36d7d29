// Edits of a text at the places of its values, for each language that launch files are written in.
//
//   sequence_len: 2048   # tokens          replaced(source, member, 4096):   sequence_len: 4096   # tokens
//
// Each returns nothing where the text does not read as the value that stands there: a value that a script computes, or a
// form that is not edited. Nothing is guessed.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "document/value.h"
#include "formats/launch/mapping.h"

namespace steelyard {

struct TextEdit {
  std::size_t at = 0;
  std::size_t length = 0;
  std::string text;
};

// A key that joins a document: where, what, and beside which key.
struct NewMember {
  std::vector<std::string> path;  // {"fsdp_config", "offload_params"}
  Value value;
  std::vector<std::string>
      order;  // the keys of the same table in the order in which they are usually written
};

// The byte at which a value or key begins.
std::optional<std::size_t> offset_of(const LaunchSource& source, const Mark& mark);

// Whether two values say the same: 2e-5 and 0.00002, true and "True".
bool says_the_same(const Value& one, const Value& other);

std::optional<TextEdit> replaced(const LaunchSource& source, const Value::Member& member,
                                 const Value& value);
std::optional<TextEdit> removed(const LaunchSource& source, const Value::Member& member);
// `root`: the document as it was read; `name`: its source, since a document may come from several.
std::optional<TextEdit> inserted(const LaunchSource& source, std::string_view name,
                                 const Value& root, const NewMember& member);

// --- one set a language ------------------------------------------------------------------------------------
std::optional<TextEdit> yaml_replaced(std::string_view text, std::size_t key, std::size_t at,
                                      const Value& old, const Value& value);
std::optional<TextEdit> yaml_removed(std::string_view text, std::size_t key, const Value& old);
std::optional<TextEdit> yaml_inserted(const LaunchSource& source, std::string_view name,
                                      const Value& root, const NewMember& member);

std::optional<TextEdit> json_replaced(std::string_view text, std::size_t at, const Value& old,
                                      const Value& value);
std::optional<TextEdit> json_removed(std::string_view text, std::size_t key, std::size_t at);
std::optional<TextEdit> json_inserted(const LaunchSource& source, std::string_view name,
                                      const Value& root, const NewMember& member);

std::optional<TextEdit> toml_replaced(std::string_view text, std::size_t at, const Value& old,
                                      const Value& value);
std::optional<TextEdit> toml_removed(std::string_view text, std::size_t key, std::size_t at);
std::optional<TextEdit> toml_inserted(const LaunchSource& source, std::string_view name,
                                      const Value& root, const NewMember& member);

std::optional<TextEdit> shell_replaced(std::string_view text, std::size_t key, std::size_t at,
                                       const Value& old, const Value& value);
std::optional<TextEdit> shell_removed(std::string_view text, std::size_t key, std::size_t at,
                                      const Value& old);
std::optional<TextEdit> shell_inserted(const LaunchSource& source, std::string_view name,
                                       const Value& root, const NewMember& member);

// The table to which a new key belongs, as far as the document has it, and what of the path is left.
struct Home {
  const Value* table = nullptr;
  std::vector<std::string> rest;  // the last is the key itself
  const Value::Member* beside =
      nullptr;  // a key of that table in this source: the new one follows it
};
Home home_of(std::string_view name, const Value& root, const NewMember& member);
// A value under the keys of `rest`, without the first.
Value wrapped(const std::vector<std::string>& rest, const Value& value);

// The end of a value in brackets or quotes that begins at `at`; of a bare word the end of it.
std::size_t end_of_token(std::string_view text, std::size_t at, std::string_view ends);
std::size_t line_start(std::string_view text, std::size_t at);
std::size_t line_end(std::string_view text, std::size_t at);  // without the line break
// The new word written as the old one was: True, yes, 'quoted'.
std::string in_the_style_of(std::string_view old, const Value& value, std::string plain);

}  // namespace steelyard
