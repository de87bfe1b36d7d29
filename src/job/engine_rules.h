// What each engine can do, and what it does when nobody says: one row an engine.
//
//   engine     zero stages   tensor  pipeline  form     usual code     checkpoint
//   ddp        0 1           no      no        foreach  transformers   full-rank0
//   fsdp2      2 3           yes     yes       foreach  transformers   sharded
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "job/job.h"

namespace steelyard {

struct EngineRules {
  Engine engine{};
  std::string_view description;  // as `list engines` says it
  bool stages[4]{};              // the zero stages it has
  int usual_stage = 0;
  std::string_view stage_words;  // "0, or 1 for ZeroRedundancyOptimizer"
  bool tensor = false;
  bool pipeline = false;
  std::string_view whole;      // why not, where one of the two is missing
  std::uint16_t orders = 0;    // the pipeline orders that it runs, a bit each
  std::uint16_t borrowed = 0;  // those that somebody else's code adds to it
  OptimizerForm form{};
  std::string_view form_reason;
  bool implementations[kImplementations]{};  // in the order of Implementation
  Implementation usual_implementation{};
  CheckpointSave save{};
  std::string_view clip_reason =
      {};  // why gradients are clipped when nobody says; empty: they are not
};

const EngineRules& rules_of(Engine engine);
// All of them, in the order of the table.
std::span<const EngineRules> engine_rules();
inline bool is_fsdp(Engine engine) { return engine == Engine::kFsdp1 || engine == Engine::kFsdp2; }
// "gpipe, 1f1b and zb-v"
std::string orders_of(const EngineRules& rules);
// "fsdp2, deepspeed, megatron and nanotron": the engines that can.
std::string engines_with_tensor();
std::string engines_with_pipeline();

}  // namespace steelyard
