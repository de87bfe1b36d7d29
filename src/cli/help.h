// What the program says about itself, from the same tables that it obeys.
#pragma once

#include <string>

#include "cli/command.h"
#include "cli/flags.h"

namespace steelyard {

// `steelyard` alone: a sentence, examples that work as pasted, the commands, where help is.
std::string overview_text(const Style& style);

// -h: one screen, examples first. --help: every flag with its key and unit.
std::string short_help(const Command& command, const Style& style);
std::string full_help(const Command& command, const Style& style);

// "-v, --verbose", "--units iec|si|bytes".
std::string flag_names(const Flag& flag);

}  // namespace steelyard
