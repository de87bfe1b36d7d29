// A file that people give in place of a configuration: what it is, and what to give instead.
//
//   error[E617]: train.py is a Python script, which is not run here, and calls no trainer that is known
//   help: give the command or the file that starts it: a script with torchrun, accelerate launch ... in it, or YAML, JSON, TOML
#pragma once

#include <optional>
#include <string_view>

#include "document/diagnostic.h"

namespace steelyard {

// Nothing: it may be a configuration.
std::optional<Diagnostic> other_kind_of_file(std::string_view text, std::string_view name);

}  // namespace steelyard
