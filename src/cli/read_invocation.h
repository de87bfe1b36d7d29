// Words of the command line become an Invocation, or everything that is wrong with them.
#pragma once

#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "cli/command.h"
#include "cli/flags.h"
#include "cli/terminal.h"
#include "document/diagnostic.h"

namespace steelyard {

// `arguments`: the words after the command's name.
// Of several choices each may stand alone, or all behind commas.
std::vector<std::string> values_said(const Flag& flag, const std::string& value);
// --threads that is no number.
std::optional<Diagnostic> wrong_threads(const Invocation& invocation);
// A value that is none of the few that the flag takes.
std::optional<Diagnostic> unknown_choice(const Flag& flag, const std::string& value);

tl::expected<Invocation, Diagnostics> read_invocation(const Command& command,
                                                      const std::vector<std::string>& arguments,
                                                      const Surroundings& stdout_around,
                                                      const Surroundings& stderr_around);

// A problem that stands on the command line: E001 and its like.
Diagnostic command_line_problem(std::string code, std::string message, std::string help = {});

}  // namespace steelyard
