// A change of a run as the lines of the user's own file: the run file's text, or the launch files that were imported.
//
//   training.micro_batch = 1            qlora.yml:14   micro_batch_size: 4  ->  micro_batch_size: 1
#pragma once

#include "cli/run_input.h"
#include "diagnose/diagnosis.h"

namespace steelyard {

// `input` must outlive it. No lines where the file has none for the change, or the run is a model's name or JSON.
LinesOfChange lines_of_change(const RunInput& input);

}  // namespace steelyard
