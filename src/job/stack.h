// What people launch: an engine, the model code that it runs, and the recipe in which that code usually trains. From data/stacks, which
// says for each what its launch files can say; and the tools that launch them, from data/tools.
//
//   ZeRO-2       deepspeed, transformers' models   bf16-mixed, gradients accumulate in bf16     deepspeed's JSON
//   torchtitan   fsdp2, torchtitan's models        bf16-mixed                                   TOML
//   nanotron     nanotron                          bf16-mixed-fp32-gradients                    YAML
//
//   trl          DDP, ZeRO-1 to 3, FSDP2           gradients are clipped to 1, the optimizer is fused
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "document/value.h"
#include "job/job.h"

namespace steelyard {

using KeyValues = std::vector<std::pair<std::string, Value>>;  // "training.gradient_clip", 1.0

struct Stack {
  std::string name, title;  // "zero-2", "ZeRO-2"
  Engine engine{};
  Implementation implementation{};
  std::vector<std::int64_t> zero_stages;
  bool usual = false;  // compared where nobody says what is used
  std::string target;  // of export; empty: its files are not written
  std::string bf16,
      fp16;               // the precision with 16-bit products and what that code keeps beside them
  std::string gradients;  // the type in which they accumulate
  std::vector<RecomputeMode> recomputes;  // those that its launch files can say
  KeyValues keys;                         // what its launch files mean without saying it
  bool plain = false;                     // a plan divides it over data alone
  bool alone = false;                     // its launch files use one device
  bool several = false;                   // with one device there is nothing that it divides
  bool settles_precision = false;         // a run that says no precision takes its own

  bool runs(Engine other, Implementation code) const {
    return engine == other && implementation == code;
  }
  bool has_stage(std::int64_t stage) const;
  // For devices with bf16 units, or those without.
  const std::string& precision(bool has_bf16) const { return has_bf16 ? bf16 : fp16; }
};
const std::vector<Stack>& stacks();
// The stack of a layout; null: nobody launches it so.
const Stack* stack_of(Engine engine, Implementation implementation, std::int64_t zero_stage);

struct Tool {
  std::string name, title;  // "trl", "TRL"
  std::vector<const Stack*> stacks;
  std::string target;        // of export; empty: that of the stack
  KeyValues defaults;        // where the run says nothing
  KeyValues weigh_defaults;  // of a run that is only weighed: a plan chooses these
  std::string versions;
};
const std::vector<Tool>& tools();
const Tool* find_tool(std::string_view name);

// A stack as somebody uses it: by hand, or by a tool with its defaults.
struct UsedStack {
  const Stack* stack = nullptr;
  const Tool* tool = nullptr;
  const std::string& target() const {
    return tool != nullptr && !tool->target.empty() ? tool->target : stack->target;
  }
};

}  // namespace steelyard
