// DeepSpeed-Chat's three steps (DeepSpeedExamples, applications/DeepSpeed-Chat/training): flags in the place of DeepSpeed's file.
//
//   deepspeed main.py --model_name_or_path facebook/opt-1.3b --zero_stage 2 --offload --deepspeed
//
// And any other script that is given DeepSpeed's own file and is not known: what the file says is read, the rest is asked for.
#pragma once

#include "formats/launch/programs.h"

namespace steelyard {

bool is_deepspeed_chat(const ProgramCall& call);
bool read_deepspeed_chat(const ProgramCall& call, Launch& launch);

bool is_script_with_deepspeed_file(const ProgramCall& call);
bool read_script_with_deepspeed_file(const ProgramCall& call, Launch& launch);

}  // namespace steelyard
