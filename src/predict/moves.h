// The changes of a run file that a suggestion is made of, each with what it costs instead of memory.
//
//   for (const Move& move : moves())
//     if (Job changed = job; move.apply(changed, edits)) ...      the job as it would be, and the keys to write
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "predict/prediction.h"

namespace steelyard {

// One change of one or a few keys, with what it costs instead of memory.
struct Move {
  std::string change;
  std::string moves_cost_to;
  std::string cost;
  // How much a team minds, in steps: nothing 0, compute 1-3, network 3, devices by doubling, the result of training most.
  int price = 1;
  // Applies itself to the job and lists the edits; false: it does not concern this job.
  std::function<bool(Job&, std::vector<Suggestion::Edit>&)> apply;
};

// In the order in which several are applied.
std::vector<Move> moves();

}  // namespace steelyard
