// Which stacks a plan searches: those that are used here, whose code has the model and whose launch files can say the run.
//
//   searched   DDP, ZeRO-1, ZeRO-2, ZeRO-3, FSDP2, torchtitan, Megatron
//   left out   nanotron: its code has no qwen3
//
// All of them train in one recipe: products in 16 bits, weights and moments in fp32, said as each stack says it
// (data/stacks). What the run itself says stays.
#pragma once

#include <string>
#include <vector>

#include "job/job.h"
#include "job/settings.h"
#include "job/stack.h"
#include "plan/search.h"

namespace steelyard {

struct LeftOutStack {
  std::string title;   // "nanotron"
  std::string reason;  // "has no qwen3"
};

struct ChosenStacks {
  std::vector<SearchedStack> searched;  // one for each engine and code
  std::vector<const Stack*> rows;       // what is shown side by side
  std::vector<LeftOutStack> left_out;
  bool is_said =
      false;  // the run names its engine: it is searched even where no file of it is written
};

// `job`: the run without a layout; `bare`: its document.
ChosenStacks chosen_stacks(const Settings& fixed, const Value& bare, const Job& job,
                           const SearchHelp& help);

}  // namespace steelyard
