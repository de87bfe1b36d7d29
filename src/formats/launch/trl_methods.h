// What TRL's configurations say of a method beside fine-tuning: what scores beside the trained model, who generates, and how
// long sequences are.
#pragma once

#include "formats/launch/mapping.h"

namespace steelyard {

// `reading`: flags or YAML of TRL's DPOConfig, KTOConfig, CPOConfig or GRPOConfig; the run's method was said.
void read_trl_method(ConfigReader& reading);

}  // namespace steelyard
