// The highest that a framework's own memory lines say, of all ranks: what a log without a snapshot knows of a run.
//
//   19.5 GiB allocated, 23.1 GiB reserved, rank 0, step 1; of 63 ranks the least is rank 41 with 15.1 GiB
#pragma once

#include <optional>
#include <string>

#include "evidence/evidence.h"

namespace steelyard {

struct HighestReading {
  std::optional<Bytes> allocated, reserved, device_used;  // each the highest; not all of one line
  std::optional<std::int64_t> rank, step;  // of `allocated`, else of the first there is
  EvidencePlace place;                     // of the same
  std::size_t ranks = 0;                   // that printed a number of that kind
  std::optional<std::int64_t> least_rank;  // where there are several
  std::optional<Bytes> least;              // its highest
  // Of that rank, where a run stands beside the log.
  std::optional<Bytes> predicted_allocated, predicted_reserved;
};

// Nothing where no line says a number.
std::optional<HighestReading> highest_reading(const std::vector<Evidence>& evidence);

}  // namespace steelyard
