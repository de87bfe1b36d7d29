// NeMo 1.x by its programs: a configuration of hydra's and words laid over it.
//
//   main.py training=gpt3/5b training.model.micro_batch_size=4       the launcher: launcher_scripts/conf/training/gpt3/5b.yaml
//   megatron_gpt_pretraining.py --config-name llama2 model.num_layers=4
#pragma once

#include "formats/launch/programs.h"

namespace steelyard {

bool is_nemo_launcher(const ProgramCall& call);
bool read_nemo_launcher(const ProgramCall& call, Launch& launch);

bool is_nemo_program(const ProgramCall& call);
bool read_nemo_program(const ProgramCall& call, Launch& launch);

}  // namespace steelyard
