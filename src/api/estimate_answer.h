// `estimate`: what `weigh` says without the allocator, as a line of JSON; with "svg" its bar. Here for the library's calls, and for
// those of the page's first module.
#pragma once

#include <string>

#include "cli/command.h"
#include "document/value.h"

namespace steelyard {

// `document`: the run with what flags lay over it; `folder`: where its files are looked for. The exit status.
int answer_estimate(const Invocation& invocation, const Value& document, const std::string& folder);

}  // namespace steelyard
