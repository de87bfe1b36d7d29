// Keys that change memory or time in somebody's framework, whatever program they belong to.
//
//   {"*lora*", "an adapter"}       --lora_enable True of a script that no reader knows:
//                                  warning: lora_enable is not read: an adapter
//
// A reader takes what it understands. What it leaves is kept under [carried.FORMAT]; of that, the keys of this list are
// warned of by name, so that no adapter, no offload and no length is passed over in silence. A key that a reader
// knows to change nothing here (lora_r where no adapter is asked for) is marked by ConfigReader::idle.
#pragma once

#include <string_view>

#include "formats/launch/mapping.h"

namespace steelyard {

// What a key of that name changes; empty: nothing that is known. `name` without its tables, in any case and with dashes.
std::string_view what_changes(std::string_view name);

// A warning for each key of that kind that was kept and not read. Call once, when all files are read.
void warn_of_heavy_keys(Imported& into);

}  // namespace steelyard
