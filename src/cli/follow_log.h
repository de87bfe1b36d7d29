// A log that is still being written, line by line: a file that grows, or a pipe.
//
//   auto evidence = follow_log("train.log", [](const Evidence& so_far) { ... });     after each piece that came
//
// Ends with the pipe, on Ctrl-C or SIGTERM, and when nothing has come for three seconds after a failure or the end of the
// training. A file is asked for more five times a second, until one of these; one that became shorter is read anew.
#pragma once

#include <functional>
#include <string>
#include <tl/expected.hpp>

#include "document/diagnostic.h"
#include "evidence/evidence.h"

namespace steelyard {

// "-" is stdin. E100: it cannot be read.
tl::expected<Evidence, Diagnostic> follow_log(const std::string& path,
                                              const std::function<void(const Evidence&)>& look);

}  // namespace steelyard
