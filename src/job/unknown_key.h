// A word that is no key: what was probably meant.
//
//   sequence_lenght in [training]     the key is "sequence_length"
//   tensor in [training]              "tensor" belongs in [parallel]
//   [trainig]                         the section is "training"
#pragma once

#include <string_view>
#include <vector>

#include "document/diagnostic.h"
#include "document/value.h"
#include "job/keys.h"

namespace steelyard {

struct UnknownKey {
  Diagnostic problem;
  std::vector<KeyId> meant;  // keys that are probably not missing, only misspelt
};

// `section` is empty for a word at the top of the file.
UnknownKey unknown_key(const Value::Member& member, std::string_view section);

}  // namespace steelyard
