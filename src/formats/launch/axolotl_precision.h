// In which types Axolotl loads a model and trains it: `bf16: auto` loads 16 bits, and nothing widens them under DDP and FSDP2.
//
//   bf16: auto                     full fine-tune on DDP or FSDP2: "bf16-pure"; beside an adapter: autocast
#pragma once

#include "formats/launch/formats.h"

namespace steelyard {

// Needs the adapter and the engine said before.
void read_axolotl_precision(ConfigReader& reading, Launch& launch);

// A model trained whole without flash attention keeps its ends in fp32: a warning.
void warn_of_wide_ends(ConfigReader& reading, const Launch& launch);

}  // namespace steelyard
