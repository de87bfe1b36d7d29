#include "job/engine_rules.h"

#include <string>

namespace steelyard {
namespace {

constexpr std::string_view kOwnKernels = "its own fused kernel";
constexpr std::string_view kTorchDefault = "PyTorch's default on a GPU";

constexpr std::array<EngineRules, 6> kRules = {{
    {.engine = Engine::kDdp,
     .stages = {true, true, false, false},
     .usual_stage = 0,
     .stage_words = "0, or 1 for ZeroRedundancyOptimizer",
     .tensor = false,
     .pipeline = false,
     .whole = "ddp keeps the whole model on every device",
     .form = OptimizerForm::kForeach,
     .form_reason = kTorchDefault,
     .implementations = {true, true, false, false},
     .usual_implementation = Implementation::kTransformers,
     .save = CheckpointSave::kFullRankZero},
    {.engine = Engine::kFsdp1,
     .stages = {false, false, true, true},
     .usual_stage = 3,
     .stage_words = "3 (reshard after forward) or 2 (keep)",
     .tensor = false,
     .pipeline = false,
     .whole = "fsdp1 flattens whole layers into one vector",
     .form = OptimizerForm::kForeach,
     .form_reason = kTorchDefault,
     .implementations = {true, true, false, false},
     .usual_implementation = Implementation::kTransformers,
     .save = CheckpointSave::kSharded},
    {.engine = Engine::kFsdp2,
     .stages = {false, false, true, true},
     .usual_stage = 3,
     .stage_words = "3 (reshard after forward) or 2 (keep)",
     .tensor = true,
     .pipeline = true,
     .whole = {},
     .form = OptimizerForm::kForeach,
     .form_reason = kTorchDefault,
     .implementations = {true, true, false, false},
     .usual_implementation = Implementation::kTransformers,
     .save = CheckpointSave::kSharded},
    {.engine = Engine::kDeepSpeed,
     .stages = {true, true, true, true},
     .usual_stage = 0,
     .stage_words = "0 to 3",
     .tensor = true,
     .pipeline = true,
     .whole = {},
     .form = OptimizerForm::kFused,
     .form_reason = kOwnKernels,
     .implementations = {true, false, true, false},
     .usual_implementation = Implementation::kTransformers,
     .save = CheckpointSave::kSharded,
     .clip_reason = "its own default, gradient_clipping 1.0 (none before June 2026)"},
    {.engine = Engine::kMegatron,
     .stages = {true, true, true, true},
     .usual_stage = 0,
     .stage_words = "0, 1 for its distributed optimizer, 2 and 3 for Megatron-FSDP",
     .tensor = true,
     .pipeline = true,
     .whole = {},
     .form = OptimizerForm::kFused,
     .form_reason = kOwnKernels,
     .implementations = {false, false, true, false},
     .usual_implementation = Implementation::kMegatron,
     .save = CheckpointSave::kSharded,
     .clip_reason = "its own default, --clip-grad 1.0"},
    {.engine = Engine::kNanotron,
     .stages = {true, true, false, false},
     .usual_stage = 0,
     .stage_words = "0 or 1",
     .tensor = true,
     .pipeline = true,
     .whole = {},
     .form = OptimizerForm::kFused,
     .form_reason = "torch_adam_is_fused of its shipped configurations",
     .implementations = {false, false, false, true},
     .usual_implementation = Implementation::kNanotron,
     .save = CheckpointSave::kSharded},
}};

std::string listed(bool EngineRules::*able) {
  std::string text;
  std::string last;
  for (const EngineRules& rules : kRules) {
    if (!(rules.*able)) continue;
    if (!last.empty()) text += (text.empty() ? "" : ", ") + last;
    last = name_of(rules.engine);
  }
  return text + " and " + last;
}

}  // namespace

const EngineRules& rules_of(Engine engine) { return kRules[static_cast<std::size_t>(engine)]; }
std::string engines_with_tensor() { return listed(&EngineRules::tensor); }
std::string engines_with_pipeline() { return listed(&EngineRules::pipeline); }

}  // namespace steelyard
