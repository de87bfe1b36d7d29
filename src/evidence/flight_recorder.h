// Dumps of torch's flight recorder: the collectives that one rank has begun, and which of them ended.
//
//   {"version": "2.9", "pg_config": {"73": {"name": "73", "desc": "EXPERT_MODEL_PARALLEL_GROUP", "ranks": "[8, 9, 10, 11]"}},
//    "entries": [{"process_group": ("73", "EXPERT_..."), "profiling_name": "nccl:all_to_all", "collective_seq_id": 20947,
//                 "input_sizes": [[4096, 5120]], "input_dtypes": ["BFloat16"], "state": "scheduled", ...}]}
//
// As a pickle of protocol 2 or JSON. A dump of what is outstanding alone holds no completed entry: an empty one says that
// this rank has begun nothing that is not ended. Source: torch/csrc/distributed/c10d/FlightRecorder*.hpp (versions 2.3 to 2.10).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "evidence/evidence.h"

namespace steelyard {

int recognise_flight_recorder(std::string_view head, std::string_view name);
tl::expected<Evidence, Diagnostics> read_flight_recorder(std::string_view bytes,
                                                         std::string_view name);

// Who holds the others up, of all ranks' dumps together.
struct CollectiveCulprit {
  enum class How : std::uint8_t {
    kNothingBegun,  // its dump has no outstanding collective while others of its group wait for it
    kNotJoined,  // it has not begun the collective that the others wait in, and waits nowhere else
    kBehind,  // it has not ended collectives that the others of its group have ended: its device is stuck
    kNoDump  // others wait, and it left no dump
  };
  std::int64_t rank = 0;
  How how = How::kNotJoined;
  std::string group, operation;
  std::int64_t sequence = 0;          // of the first collective that does not end
  std::vector<std::int64_t> waiting;  // the ranks of the group that have begun it
  EvidencePlace place;                // of an entry of one that waits
};
// Of the dumps of one incident, each with its rank; other evidence among them is passed over.
std::vector<CollectiveCulprit> find_collective_culprits(std::span<const Evidence* const> dumps);

}  // namespace steelyard
