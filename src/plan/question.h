// From a run file to a question for the search: what is fixed, what is open, and what every layout keeps.
//
//   plan llama-3.1-8b --on 8xh100-sxm-80gb          everything is open but the model, the devices and the batch
//   [parallel] tensor = 4                            tensor stays 4
//
// The global batch is kept: it belongs to the learning-rate schedule. Where nobody says one it is assumed, and said.
#pragma once

#include <tl/expected.hpp>
#include <vector>

#include "document/diagnostic.h"
#include "plan/search.h"
#include "plan/searched_stacks.h"

namespace steelyard {

struct PlanQuestion {
  Value run;  // as given, with keys by their own names, and what follows from the target
  PlanTarget target;
  std::int64_t sequences = 0;  // of a step
  std::vector<Assumption> assumptions;
  std::vector<RecipeChange> recipes;  // what may change beside the layout; the first: nothing
  ChosenStacks stacks;
};

// `allowed`: recipes that may be considered, too.
tl::expected<PlanQuestion, Diagnostics> question_of(const Value& document, const SearchHelp& help,
                                                    std::vector<RecipeChange> allowed = {});

// The same question for another number of devices, another length, ...: a key and its value.
Value with_key(const Value& run, KeyId id, Value value);

// Unfinished where the time was up.
Space space_of(const PlanQuestion& question, const SearchHelp& help = {});

}  // namespace steelyard
