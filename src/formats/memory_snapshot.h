// Memory snapshots as pickles: what torch.cuda.memory._dump_snapshot(file) writes and pytorch.org/memory_viz opens.
//
//   const std::string bytes = memory_snapshot_pickle(snapshot);
//   auto snapshot = read_memory_snapshot(bytes, "snapshot.pickle");      or everything that is wrong with it
//
//   {"segments":      [{"address", "total_size", "stream", "segment_type", "device", "blocks": [{"size", "state", ...}]}],
//    "device_traces": [[{"action", "addr", "size", "stream", "time_us", "frames"}, ...] for each device],
//    "allocator_settings": {...}}
//
// Sources: pytorch torch/cuda/memory.py, torch/csrc/cuda/Module.cpp and memory_snapshot.cpp (2.1 to 2.11),
// torch/utils/viz/MemoryViz.js.
#pragma once

#include <string>
#include <string_view>
#include <tl/expected.hpp>

#include "allocator/memory_snapshot.h"
#include "document/diagnostic.h"

namespace steelyard {

std::string memory_snapshot_pickle(const MemorySnapshot& snapshot);

// Streams are numbered: 0 is the default one. Keys that nobody here asks for are passed over.
tl::expected<MemorySnapshot, Diagnostics> read_memory_snapshot(std::string_view bytes,
                                                               std::string_view source_name);

}  // namespace steelyard
