// The end of an export: what a run file only carried, and no file of the target says.
//
//   left out: carried.axolotl: megatron has no key for num_epochs, wandb_watch
#pragma once

#include <string>
#include <string_view>

#include "formats/launch/mapping.h"

namespace steelyard {

// Lists them among the losses, by name.
void lose_carried(ConfigWriter& writing, std::string_view target);

// [carried.sbatch] as #SBATCH lines.
std::string carried_directives(ConfigWriter& writing);

}  // namespace steelyard
