// What a target of LoRA means beside experts whose tensors are stacked.
//
//   mixtral      w1 and w3 -> experts.gate_up_proj · w2 -> experts.down_proj · gate -> the router's weight
//   qwen3_moe    gate_proj and up_proj -> experts.gate_up_proj · down_proj -> experts.down_proj · gate
//
// Experts were linear modules before transformers 5, and targets still name those. PEFT takes them for the stacked tensors, for these
// families alone; the same names then mean no linear module any more, so that shared experts and dense layers get no adapter
// (peft utils/transformers_weight_conversion.py, _convert_peft_config_moe and _MOE_TARGET_MODULE_MAPPING, 0.21;
// transformers conversion_mapping.py, _MODEL_TO_CONVERSION_PATTERN, 5.17, which lacks qwen2_moe, phimoe and others).
#pragma once

#include <string_view>

namespace steelyard {

struct ExpertTargets {
  std::string_view gate, up, down;  // the former names of an expert's three modules
};

// nullptr: PEFT leaves the experts of this family alone.
const ExpertTargets* expert_targets_of(std::string_view family);

}  // namespace steelyard
