// How many entries a tokenizer has, for launch files that name it and not its size.
#pragma once

#include "formats/launch/mapping.h"
#include "formats/launch/model_table.h"

namespace steelyard {

// --vocab-size, or what --tokenizer-type and --tokenizer-model mean: vocab_size of the model; else it is asked for.
void read_megatron_vocabulary(ConfigReader& reading, ModelTable& model);

}  // namespace steelyard
