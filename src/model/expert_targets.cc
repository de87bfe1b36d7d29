#include "model/expert_targets.h"

#include <algorithm>
#include <iterator>

namespace steelyard {
namespace {

constexpr ExpertTargets kOfMixtral{"w1", "w3", "w2"};
constexpr ExpertTargets kOfQwen{"gate_proj", "up_proj", "down_proj"};

struct FamilyOfTargets {
  std::string_view model_type;
  const ExpertTargets* targets;
};
constexpr FamilyOfTargets kFamilies[] = {
    {"mixtral", &kOfMixtral},  {"minimax_m2", &kOfMixtral},  {"deepseek_v2", &kOfQwen},
    {"deepseek_v3", &kOfQwen}, {"dots1", &kOfQwen},          {"ernie4_5_moe", &kOfQwen},
    {"glm4_moe", &kOfQwen},    {"glm4_moe_lite", &kOfQwen},  {"qwen3_moe", &kOfQwen},
    {"qwen3_next", &kOfQwen},  {"hunyuan_v1_moe", &kOfQwen}, {"olmoe", &kOfQwen},
};

}  // namespace

const ExpertTargets* expert_targets_of(std::string_view family) {
  const auto* found =
      std::find_if(std::begin(kFamilies), std::end(kFamilies),
                   [&](const FamilyOfTargets& known) { return known.model_type == family; });
  return found == std::end(kFamilies) ? nullptr : found->targets;
}

}  // namespace steelyard
