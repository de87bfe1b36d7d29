// What was seen of one rank of a rehearsed script: steelyard.record/1 with "how": "rehearsed", as paper/observer writes it.
//
//   auto rehearsal = read_rehearsal(document);
//   rehearsal->phases   load, and forward, backward, optimizer of each step
//   rehearsal->lines    what was alive at the highest peak, by the line that asked for it
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <utility>
#include <vector>

#include "document/diagnostic.h"
#include "document/value.h"
#include "ledger/pile.h"

namespace steelyard {

struct RehearsedPhase {
  std::string step;  // "load", "first", "steady", "step 2"
  Phase phase = Phase::kForward;
  Bytes allocated{};  // the largest sum of what was asked for, rounded as the allocator does
  Bytes resident{};   // the same at the phase's end
  Bytes
      max_allocated{};  // torch.cuda.max_memory_allocated: with the ends of blocks that are not split
  Bytes reserved{};     // torch.cuda.max_memory_reserved
  Piles piles;          // at the peak; sums to `allocated`
};

// Allocations of one pile that one line of Python asked for.
struct RehearsedLine {
  Pile pile = Pile::kTemporary;
  Bytes bytes{};
  std::int64_t count = 1;
  std::string
      user;  // "train.py:42": the innermost line of the user's own; empty: none, as in autograd's threads
  std::string line;      // "modeling_llama.py:175": the innermost that is not PyTorch's
  std::string function;  // "forward"
};

// The allocator found no room.
struct RehearsedFailure {
  Bytes tried{}, allocated{}, reserved{}, free{}, capacity{};
  std::int64_t step = 0;
  std::string phase;
};

// What ended the script before the rehearsal did.
struct RehearsedError {
  std::string type, text, line, traceback;
  bool out_of_memory = false;
};

// A value or a kernel that was answered in place of what a device would have computed.
struct Substitution {
  std::string what, line;
  std::int64_t times = 0;
};

struct Rehearsal {
  std::int64_t rank = 0, ranks = 1;
  std::int64_t steps = 0;  // that were seen to their end
  std::string ended;       // why it was over
  double seconds = 0;
  std::int64_t parameters = 0, trainable = 0;
  std::vector<std::pair<std::string, std::string>> versions;
  std::vector<RehearsedPhase> phases;
  std::vector<RehearsedLine> lines;
  std::optional<RehearsedFailure> failure;
  std::optional<RehearsedError> error;
  std::vector<Substitution> substitutions;
  std::vector<std::pair<std::string, std::int64_t>>
      unanswered;  // functions of NVIDIA's libraries, and how often

  std::vector<std::string>
      missing;  // what the script wanted and this machine has not, with what to do

  // The failure was the script's own: no memory was missing.
  bool failed_by_itself() const { return error && !error->out_of_memory; }
};

tl::expected<Rehearsal, Diagnostic> read_rehearsal(const Value& document);

}  // namespace steelyard
