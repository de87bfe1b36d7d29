#include "job/engine_rules.h"

#include <string>
#include <vector>

#include "schedule/orders.h"

namespace steelyard {
namespace {

constexpr std::string_view kOwnKernels = "its own fused kernel";
constexpr std::string_view kTorchDefault = "PyTorch's default on a GPU";

using enum PipelineSchedule;
constexpr auto kPlain = static_cast<std::uint16_t>(bit_of(kGPipe) | bit_of(kOneForwardOneBackward));
// torch/distributed/pipelining/schedules.py, get_schedule_class
constexpr auto kOfTorch = static_cast<std::uint16_t>(
    kPlain | bit_of(kInterleaved) | bit_of(kZeroBubbleH1) | bit_of(kZeroBubbleV) |
    bit_of(kDualPipeV) | bit_of(kLoopedBreadthFirst));
// sail-sg/zero-bubble-pipeline-parallelism is a fork of Megatron-LM; DualPipe's modules are plain ones.
constexpr auto kOfForks = static_cast<std::uint16_t>(
    bit_of(kGPipe) | bit_of(kZeroBubbleH1) | bit_of(kZeroBubbleH2) | bit_of(kZeroBubbleV) |
    bit_of(kVHalf) | bit_of(kDualPipe) | bit_of(kDualPipeV));

constexpr std::array<EngineRules, 7> kRules = {{
    {.engine = Engine::kDdp,
     .stages = {true, true, false, false},
     .usual_stage = 0,
     .stage_words = "0, or 1 for ZeroRedundancyOptimizer",
     .tensor = false,
     .pipeline = false,
     .whole = "ddp keeps the whole model on every device",
     .form = OptimizerForm::kForeach,
     .form_reason = kTorchDefault,
     .implementations = {true, true, false, false, false, true, true},
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
     .implementations = {true, true, false, false, false, true, false},
     .usual_implementation = Implementation::kTransformers,
     .save = CheckpointSave::kSharded},
    {.engine = Engine::kFsdp2,
     .stages = {false, false, true, true},
     .usual_stage = 3,
     .stage_words = "3 (reshard after forward) or 2 (keep)",
     .tensor = true,
     .pipeline = true,
     .whole = {},
     .orders = kOfTorch,
     .form = OptimizerForm::kForeach,
     .form_reason = kTorchDefault,
     .implementations = {true, true, false, false, false, false, true},
     .usual_implementation = Implementation::kTransformers,
     .save = CheckpointSave::kSharded},
    {.engine = Engine::kDeepSpeed,
     .stages = {true, true, true, true},
     .usual_stage = 0,
     .stage_words = "0 to 3",
     .tensor = true,
     .pipeline = true,
     .whole = {},
     .orders = bit_of(kOneForwardOneBackward),
     .borrowed = bit_of(kGPipe),
     .form = OptimizerForm::kFused,
     .form_reason = kOwnKernels,
     .implementations = {true, false, true, false, false, false, false},
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
     .orders = bit_of(kOneForwardOneBackward) | bit_of(kInterleaved),
     .borrowed = kOfForks,
     .form = OptimizerForm::kFused,
     .form_reason = kOwnKernels,
     .implementations = {false, false, true, false, false, false, false},
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
     .orders = kPlain,
     .form = OptimizerForm::kFused,
     .form_reason = "torch_adam_is_fused of its shipped configurations",
     .implementations = {false, false, false, true, false, false, false},
     .usual_implementation = Implementation::kNanotron,
     .save = CheckpointSave::kSharded},
    {.engine = Engine::kScaling,
     .stages = {true, true, false, false},
     .usual_stage = 0,
     .stage_words = "0 or 1",
     .tensor = true,
     .pipeline = true,
     .whole = {},
     .orders = bit_of(kOneForwardOneBackward),
     .form = OptimizerForm::kForeach,
     .form_reason = kTorchDefault,
     .implementations = {false, false, false, false, true, false, false},
     .usual_implementation = Implementation::kScaling,
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
std::string orders_of(const EngineRules& rules) {
  std::vector<std::string_view> names;
  for (const PipelineOrder& order : pipeline_orders())
    if ((rules.orders & bit_of(order.schedule)) != 0) names.push_back(order.name);
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i)
    text += std::string(i == 0                  ? ""
                        : i + 1 == names.size() ? " and "
                                                : ", ") +
            std::string(names[i]);
  return text;
}
std::string engines_with_tensor() { return listed(&EngineRules::tensor); }
std::string engines_with_pipeline() { return listed(&EngineRules::pipeline); }

}  // namespace steelyard
