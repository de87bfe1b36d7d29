// Every request that a run should make of its allocator in its first two steps: what a failed request is looked for among.
//
//   step  phase      live        request      segment
//   1     forward    4.2 GiB     96.0 MiB     96 MiB
//   2     backward   7.8 GiB     801.0 MiB    802 MiB
//
// The text of a failure has three numbers that a run must show together: the segment that was asked for, what was allocated
// then, and by its frames the phase. A run in which such a moment exists may have died there; one without it did not.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "diagnose/shape_words.h"
#include "job/job.h"
#include "ledger/pile.h"

namespace steelyard {

struct ExpectedRequest {
  bool first_step = false;
  Phase phase = Phase::kForward;
  std::int64_t live = 0;  // before it
  std::int64_t size = 0;
  std::int64_t segment = 0;  // what cudaMalloc would be asked for
};

// Of `prediction.ranks[rank_index]`. Of a longer run the first requests only.
std::vector<ExpectedRequest> expected_requests(const Job& job, std::size_t rank_index);

// The request of that phase and segment whose live bytes are nearest to what was allocated; nothing: the run makes none.
struct RequestMatch {
  ExpectedRequest request;
  std::int64_t beyond = 0;  // allocated, less what the run has live at that request
};
std::optional<RequestMatch> nearest_request(const std::vector<ExpectedRequest>& requests,
                                            std::optional<Phase> phase, SizeRange segment,
                                            std::int64_t allocated,
                                            std::optional<bool> first_step = {});

}  // namespace steelyard
