// What a script says of devices, environment and itself, changed at its place: the launcher's counts, #SBATCH lines, exported
// variables, and the remarks that an export leaves.
//
//   torchrun --nnodes 1 --nproc-per-node 8        devices 16 of 8 each:   --nnodes 2 --nproc-per-node 8
#pragma once

#include <set>
#include <string>
#include <vector>

#include "document/value.h"
#include "formats/launch/mapping.h"
#include "formats/launch/patch_text.h"

namespace steelyard {

struct PlacedEdit {
  std::string source;  // the name of the text
  TextEdit edit;
};

std::vector<PlacedEdit> launcher_edits(const Imported& imported, const Value& wanted,
                                       const std::set<std::string>& changed);

}  // namespace steelyard
