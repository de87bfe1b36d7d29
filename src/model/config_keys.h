// The names of config.json's keys that no single family owns.
#pragma once

#include <span>
#include <string_view>

namespace steelyard {

// One meaning, several spellings: `attribute_map` of the configuration classes, and older files.
struct KeyAlias {
  std::string_view name;   // what the readers ask for
  std::string_view alias;  // what a file may hold instead
};
std::span<const KeyAlias> key_aliases();

// Known to change no tensor in any family: tokens, numerics, generation, losses, bookkeeping.
bool is_harmless_key(std::string_view key);

}  // namespace steelyard
