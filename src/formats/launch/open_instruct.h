// allenai/open-instruct: dataclasses of its own (open_instruct/finetune.py, dpo_utils.py), on Accelerate, mostly with DeepSpeed.
// Weights are loaded in bf16, adapters are chosen by use_lora and use_qlora, and gradients are clipped only when told.
//
//   accelerate launch --use_deepspeed ... open_instruct/finetune.py --model_name_or_path meta-llama/Llama-3.1-8B --max_seq_length 4096
//   model_name_or_path: ...        the same as YAML, which names no engine
//   dataset_mixer_list: ...
#pragma once

#include "formats/launch/programs.h"

namespace steelyard {

bool is_open_instruct_yaml(const Value& document);
void read_open_instruct_yaml(const Value& document, Launch& launch);

bool is_open_instruct(const ProgramCall& call);
bool read_open_instruct(const ProgramCall& call, Launch& launch);

// mason.py, which sends what stands behind `--` to a cluster.
bool is_mason(const ProgramCall& call);
bool read_mason(const ProgramCall& call, Launch& launch);

}  // namespace steelyard
