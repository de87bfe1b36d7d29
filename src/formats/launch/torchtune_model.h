// torchtune's model builders: their names say sizes and LoRA, or their arguments do.
//
//   model: {_component_: torchtune.models.llama3_1.lora_llama3_1_8b, lora_rank: 8, ...}     a preset with an adapter
//   model: {_component_: torchtune.models.llama2.llama2, num_layers: 22, ...}               a table of sizes
#pragma once

#include <string>

#include "formats/launch/mapping.h"

namespace steelyard {

// `section`: "model", or "policy_model" of PPO's recipes.
void read_torchtune_model(ConfigReader& reading, const std::string& section);

}  // namespace steelyard
