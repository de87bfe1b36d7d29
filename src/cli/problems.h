// How a command ends when the question cannot be answered: all problems at once, exit 2.
#pragma once

#include <string_view>

#include "cli/command.h"
#include "document/diagnostic.h"

namespace steelyard {

// On stderr; with --json as one steelyard.error/1 document on stdout instead. Returns kBadInput.
// `outcome` says what did not happen: "nothing weighed".
int refuse(const Invocation& invocation, const Diagnostics& problems, std::string_view outcome);

// Warnings on stderr, as blocks; --json carries them inside its document and -q drops them.
void warn(const Invocation& invocation, const Diagnostics& warnings);

// The same word for all: RUN is missing, or there is one word too many.
int refuse_words(const Invocation& invocation, std::string_view message);

// A command that does not exist. `json`: as one document.
Diagnostic unknown_command(std::string_view name);
int refuse_command(std::string_view name, const Style& style, bool json);

}  // namespace steelyard
