// Memory snapshots as evidence: torch.cuda.memory._dump_snapshot(file) in every form since 1.12, as a pickle or as JSON.
//
//   oom.pickle   snapshot, PyTorch 2.9-2.10, complete
//     failure    event 2,780: 1.96 GiB requested, 70.4 live in 76.4 reserved, 1.02 free on the device
//
// Sources: evidence/memory_history.h.
#pragma once

#include <string_view>
#include <tl/expected.hpp>

#include "evidence/evidence.h"

namespace steelyard {

int recognise_snapshot(std::string_view head, std::string_view name);
tl::expected<Evidence, Diagnostics> read_snapshot(std::string_view bytes, std::string_view name);

// The rank that a file's name says: the digits behind "rank", or the last ones before the ending.
std::optional<std::int64_t> rank_of_name(std::string_view name);

}  // namespace steelyard
