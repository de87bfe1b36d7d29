// `steelyard compare` where one word, or both, is a memory snapshot: at its failure, else at its highest point.
#pragma once

#include <optional>

#include "cli/command.h"

namespace steelyard {

// The exit status; nothing where neither of the two words is a snapshot.
std::optional<int> compare_with_snapshot(const Invocation& invocation);

}  // namespace steelyard
