// A model with adapters: everything it had is frozen, and narrow matrices beside its products are trained.
//
//   adapt(llama, {.rank = 16, .targets = {"q_proj", "v_proj"}})
//
//   self_attn.q_proj.weight           [4096, 4096]   frozen
//   self_attn.q_proj.lora_A.weight    [16, 4096]     trained
//   self_attn.q_proj.lora_B.weight    [4096, 16]     trained
//
// A target is the end of a module's name ("q_proj", "self_attn.q_proj"), a pattern with `*`, or "all-linear": every
// torch.nn.Linear of the layers (peft/tuners/tuners_utils.py, _maybe_include_all_linear_layers).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/architecture.h"
#include "model/expert_targets.h"

namespace steelyard {

struct AdapterTerms {
  std::int64_t rank = 8;
  bool magnitude = false;  // DoRA
  std::vector<std::string> targets;
  ElementType linear = ElementType::kBFloat16;  // how the layers' linear modules are kept
  ElementType rest = ElementType::kBFloat16;    // and all other tensors
  bool with_head = false;                       // the head is kept as linear modules are
  // What PEFT understands by targets of this family's experts; nullptr: their tensors have no adapters.
  const ExpertTargets* expert_targets = nullptr;
  // Experts that have linear modules of their own are kept as linear modules, and a target may name them (transformers
  // before 5); those that are one tensor are kept so where a framework sees to it (Axolotl's quantize_moe_experts).
  bool separate_experts = false, stacked_experts = false;
};

struct Adapted {
  std::shared_ptr<const Architecture> architecture;
  std::vector<std::string> unmatched;  // targets that name no linear module
  std::string expert;  // a linear module of each expert that a target names; empty: none
  // A target that means one of gate and up where both are one tensor; empty: none.
  std::string half_of_experts;
  bool adapts_experts = false;  // some stacked tensor of experts or a router's has an adapter
};
Adapted adapt(const Architecture& architecture, const AdapterTerms& terms);

// The same without what adapters add to products; their tensors stay in the lists.
Architecture without_adapters(const Architecture& architecture);

// The linear modules of a layer that can have an adapter, and of which a quantised model quantises the weight. Routers
// and experts are no torch.nn.Linear in transformers 5: their weights are tensors of their own modules.
std::vector<Linear*> linears_of(Layer& layer);

// The names that a target may have, "self_attn.q_proj", each once.
std::vector<std::string> adaptable_modules(const Architecture& architecture);

}  // namespace steelyard
