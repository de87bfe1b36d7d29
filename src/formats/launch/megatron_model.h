// A model as Megatron-LM's flags say it, and as config.json does.
#pragma once

#include "formats/launch/formats.h"

namespace steelyard {

// --num-layers, --hidden-size, ... -> config.json's keys, under the run file's `model`.
void read_megatron_model(ConfigReader& reading);
// And back; a problem for a model that Megatron's GPT cannot be told.
void write_megatron_model(ConfigWriter& writing);

}  // namespace steelyard
