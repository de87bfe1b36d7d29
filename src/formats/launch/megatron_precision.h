// Types in Megatron-LM's flags: of arithmetic, of gradients, and of what a precision-aware optimizer keeps.
#pragma once

#include "formats/launch/mapping.h"

namespace steelyard {

void read_megatron_precision(ConfigReader& reading);
void write_megatron_precision(ConfigWriter& writing);

}  // namespace steelyard
