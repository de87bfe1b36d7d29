// All evidence of one run together: in the order of time, with the failure that was first.
//
//   rank3.log    23:42:02   CUDA out of memory, rank 3, step 120        <- first
//   rank0.log    23:52:10   watchdog: all_reduce timed out, rank 0      a consequence
//   slurm.err    23:52:31   task 0: Killed                              a consequence
//
// Files are told apart by what they hold; the rank is taken from the text, else from the name of the file or its folder.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "evidence/evidence.h"
#include "evidence/flight_recorder.h"

namespace steelyard {

struct IncidentFailure {
  std::size_t evidence = 0, failure = 0;  // evidence[evidence].failures[failure]
};

struct Incident {
  // Fatal failures, the first in time first; consequences behind their causes. Those of unknown time keep the order of their
  // files, behind a timed one of the same kind of death.
  std::vector<IncidentFailure> order;
  std::optional<IncidentFailure> first;  // the cause, where there is one that is no consequence
  std::vector<CollectiveCulprit> culprits;
  std::vector<std::int64_t> ranks;  // that left any evidence
  std::vector<std::int64_t>
      silent_ranks;  // of a known world, that left none while others left a file each
};

// The rank that a path says: "rank_3/stderr.log", "logs/attempt_0/3/stderr.log", "snapshot_3.pickle", "_dump_3".
std::optional<std::int64_t> rank_of_path(std::string_view path);

// Marks consequences across files and sets the ranks that only names say.
Incident join_incident(std::span<Evidence> evidence);

}  // namespace steelyard
