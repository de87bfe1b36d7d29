// A search that ran out of time, or was stopped: how far it came.
//
//   not finished: 9.0 of 9.9 million layouts asked, the best so far; --seconds N searches for longer
#pragma once

#include <string>

#include "plan/search.h"

namespace steelyard {

// `more`: not all of them were counted. `by_thumb`: a layout is shown that the search has not come to.
std::string unfinished_words(const SearchCounts& counts, bool more, bool by_thumb);

}  // namespace steelyard
