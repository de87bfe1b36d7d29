// `export` of a launch file to the engine that it is written for: the user's own file, with the needed keys changed.
#pragma once

#include <string>

#include "cli/command.h"
#include "cli/run_input.h"
#include "document/value.h"

namespace steelyard {

// Whether it is that file which changes, and no new one that is written.
bool exports_own_file(const Invocation& invocation, const RunInput& input,
                      const std::string& target);

// `wanted`: the input's document with the flags laid over it.
int export_own_file(const Invocation& invocation, const RunInput& input, const Value& wanted,
                    const std::string& target);

}  // namespace steelyard
