// A run file as text: from a value, or an existing text with some keys changed and everything else kept.
//
//   [parallel]          # two nodes
//   context = 1                            edited: context = 2
//   tensor = 4
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "document/value.h"

namespace steelyard {

// The whole run file as TOML: what stands at the top, then one table a section.
std::string run_file_text(const Value& run);

struct KeyEdit {
  std::string key;  // "parallel.context"
  Value value;
};

// `text` is TOML and reads as `before`. Comments and order stay; a new key joins its section's end.
// What cannot be edited in place (a list over several lines) makes the whole text be written anew.
std::string edited_run_file(std::string_view text, const Value& before,
                            const std::vector<KeyEdit>& edits);

}  // namespace steelyard
