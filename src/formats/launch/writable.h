// What may be written of a run that a stranger may have filled: names are names, and every text can stand in a file.
//
//   [environment]
//   "A=1; rm -rf ~ #" = "1"        error[E610]: no environment variable can be called so
//   PATH = "/tmp/evil"             left out: it decides which programs run
#pragma once

#include <string_view>

#include "document/diagnostic.h"
#include "formats/launch/mapping.h"

namespace steelyard {

// Texts that no file can hold, names that no variable can have, and what Slurm would not take.
Diagnostics unwritable(const Value& run, bool slurm);

// Variables that decide which programs and libraries run: a run that came from somewhere does not set them.
bool chooses_programs(std::string_view variable);

// What a run says of installed packages, under [environment]: torch = "2.8". No variable of a shell.
bool is_package(std::string_view name);

// Members of what is to be written whose names no flag can have, and items that would be read as flags: left out, and said.
void leave_out_unwritable_flags(ConfigWriter& writing);
// Keys that are longer than YAML lets a plain key be.
void leave_out_unwritable_keys(ConfigWriter& writing);

}  // namespace steelyard
