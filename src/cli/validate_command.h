// `validate` over the sources that somebody can map: the program knows its user's own runs, tools/judge the published tables.
#pragma once

#include "cli/command.h"
#include "validate/measured_row.h"

namespace steelyard {

int validate_with(const RowSources& sources, const Invocation& invocation);

}  // namespace steelyard
