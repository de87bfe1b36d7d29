// A run with a suggestion's keys written over it, by the path that --apply takes.
#pragma once

#include <string>
#include <string_view>

#include "document/value.h"
#include "predict/suggest.h"

namespace steelyard {

// `tool`: whose files the user writes, as `export` names it; a change that they have no word for is none. Empty: any may be.
// An edit to nothing takes the key, or the table, out.
Rewritten rewritten(const Value& document, const std::string& folder, std::string_view tool);

// The tool that a run says of itself: of those that bring their own model code and configuration; otherwise empty.
std::string_view tool_of(const Value& document);

}  // namespace steelyard
