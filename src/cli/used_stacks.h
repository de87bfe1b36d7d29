// What somebody uses: --for trl,megatron names tools, --engine fsdp2,deepspeed several engines.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "cli/command.h"
#include "document/diagnostic.h"
#include "document/value.h"
#include "job/stack.h"

namespace steelyard {

struct UsedStacks {
  std::vector<UsedStack> stacks;  // empty: nobody says
  std::vector<SaidKey> keys;      // of the command line, without a list of engines
};
// `several`: --engine may be a list.
tl::expected<UsedStacks, Diagnostics> used_stacks(const Invocation& invocation, bool several);

// A run that is weighed as a tool trains it: engine, code, recipe and defaults, where the run says nothing. What was taken
// is listed as assumptions.
tl::expected<std::vector<Assumption>, Diagnostics> take_defaults_of(const UsedStacks& used,
                                                                    const std::string& folder,
                                                                    Value& document);

// Why a run cannot be written as the files of `target`; nothing where it can, or where it is no run at all.
std::optional<std::string> export_fault(const Value& run, const std::string& folder,
                                        const std::string& target);

}  // namespace steelyard
