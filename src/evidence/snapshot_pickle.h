// A memory snapshot as a pickle of protocol 2 to 5, read in one pass over its opcodes: no tree of values is built, so a file
// of a gigabyte takes seconds and about half its size in memory. Nothing of it is run: an opcode that imports, calls or makes
// an object ends the reading with its name and offset.
//
//   auto history = read_snapshot_pickle(bytes, "oom.pickle");
#pragma once

#include <string_view>
#include <tl/expected.hpp>

#include "document/diagnostic.h"
#include "evidence/memory_history.h"

namespace steelyard {

tl::expected<MemoryHistory, Diagnostics> read_snapshot_pickle(std::string_view bytes,
                                                              std::string_view name);
// The same dict as JSON, as users write it with json.dump.
tl::expected<MemoryHistory, Diagnostics> read_snapshot_json(std::string_view bytes,
                                                            std::string_view name);

}  // namespace steelyard
