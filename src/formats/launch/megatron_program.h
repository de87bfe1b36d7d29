// Programs that take Megatron-LM's flags: its own, those of forks, and Megatron-DeepSpeed's with a DeepSpeed file beside them.
#pragma once

#include "formats/launch/programs.h"

namespace steelyard {

// By the names of Megatron-LM's own programs.
bool is_megatron_program(const ProgramCall& call);
// By flags that only Megatron-LM and its forks have.
bool has_megatron_flags(const ProgramCall& call);
// A program of somebody's own on Megatron's arguments.
bool read_program_with_megatron_flags(const ProgramCall& call, Launch& launch);
bool read_megatron_program(const ProgramCall& call, Launch& launch);

}  // namespace steelyard
