// The fastest layout of each stack for one problem: "ZeRO-2, ZeRO-3 or FSDP2 for my model?"
//
//   ZeRO-3       data 4, micro-batch 1, full recompute    34.1 GiB   5.2 s
//   torchtitan   data 4, micro-batch 2, full recompute    38.0 GiB   5.3 s
//   DDP          12.3 GiB too much at least
//   nanotron     has no qwen3
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plan/plan.h"

namespace steelyard {

// Whether launch files must be able to say an answer: not where the run names its engine, unless somebody asks for them.
bool must_launch(const PlanQuestion& question, const SearchHelp& help);
// Why no launch file says a row, where its stack has launch files.
std::optional<std::string> launch_fault(const PlanQuestion& question, const PlanRow& row,
                                        const SearchHelp& help);
// row_of(), of what can be launched. Where the run names its engine, whatever its files can say is left to export.
std::optional<PlanRow> launched_row_of(const PlanQuestion& question, const Space& space,
                                       const Layout& layout, const SearchHelp& help);
// The same of fitting_row_of().
std::optional<PlanRow> launched_fitting_row_of(const PlanQuestion& question, const Space& space,
                                               const Layout& layout, const SearchHelp& help);

// Of each stack that is searched, fastest first; then those that cannot, with why.
std::vector<StackAnswer> side_by_side(const PlanQuestion& question,
                                      const std::vector<PlanRow>& known, const SearchHelp& help);

}  // namespace steelyard
