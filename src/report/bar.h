// Bars in eighths of a character, and the line of what is usable.
//
//   ████████████████████████▋
//   ─────────────────────────────|░░░░░░░░     usable, and what is over it
#pragma once

#include <string>

#include "report/style.h"

namespace steelyard {

// `share` of `columns`, 0 to 1. Anything above nothing is drawn at least as the thinnest stroke.
std::string bar(const Style& style, double share, int columns);

// The total drawn against a limit, both as shares of `columns`: a line, `|` at the limit, `░` over
// it.
std::string line_with_limit(const Style& style, double total, double limit, int columns);

}  // namespace steelyard
