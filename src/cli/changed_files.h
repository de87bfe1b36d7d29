// A change of a run as the user's own files: the run file's text, or the launch files that were imported, with only what
// must change.
//
//   training.micro_batch = 1            qlora.yml:14   micro_batch_size: 4  ->  micro_batch_size: 1
#pragma once

#include <string>
#include <vector>

#include "cli/run_input.h"
#include "diagnose/diagnosis.h"
#include "formats/launch/patch.h"

namespace steelyard {

// The first file first, then those it names that change. Empty where these files cannot say the change, or the run is the
// name of a model, or JSON.
std::vector<PatchedFile> changed_files(const RunInput& input, const RunEdits& edits);

// The same as lines. `input` must outlive it.
LinesOfChange lines_of_change(const RunInput& input);

// Where a file of these is written below `folder`: as it lies from the first one's own folder.
std::string path_below(const std::string& folder, const RunInput& input, const std::string& name);

}  // namespace steelyard
