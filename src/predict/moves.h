// The changes of a run file that a suggestion is made of, each with what it costs instead of memory.
//
//   for (const Move& move : moves())
//     if (const auto edits = move.edits(job)) ...      the keys to write: {"recompute.mode", "none", "full"}
//
// A move only proposes keys. What they make of the run is read from the run file that has them (predict/suggest.cc), so that a
// default which hangs on a changed key changes with it, and what cannot run is refused by the same rules as any run file.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "predict/suggest.h"

namespace steelyard {

// One change of one or a few keys, with what it costs instead of memory.
struct Move {
  std::string change;
  std::string moves_cost_to;
  std::string cost;
  // How much a team minds, in steps: nothing 0, compute 1-3, network 3, devices by doubling, the result of training most.
  int price = 1;
  // The keys to write; absent: it does not concern this job.
  std::function<std::optional<RunEdits>(const Job&)> edits;
};

// In the order in which several are applied.
std::vector<Move> moves();
// Other weights than the run's are trained: for one device that cannot hold the training of all of them.
std::vector<Move> adapter_moves();

}  // namespace steelyard
