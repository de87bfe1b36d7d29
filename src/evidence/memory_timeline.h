// What torch.profiler's export_memory_timeline wrote: memory by torch's own categories over the time of a profile.
//
//   raw     [[-1, 1, 37888, 7], [1696966047097946057, 2, 512, 3], ...]       time in ns, action, change in bytes, category
//   json    [[times], [[0, parameters, optimizer state, input, temporary, activation, gradient, autograd, unknown], ...]]
//
// The total is to be trusted; the categories are a hint, wrong with torch.compile and several streams. As HTML it holds a
// picture alone. Source: torch/profiler/_memory_profiler.py (deprecated 2025-11).
#pragma once

#include <string_view>
#include <tl/expected.hpp>

#include "evidence/evidence.h"

namespace steelyard {

int recognise_memory_timeline(std::string_view head, std::string_view name);
tl::expected<Evidence, Diagnostics> read_memory_timeline(std::string_view bytes,
                                                         std::string_view name);

}  // namespace steelyard
