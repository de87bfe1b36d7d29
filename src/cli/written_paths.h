// A run that is written into another folder still names the same files.
//
//   runs/a.toml   model = "../c.json"     written to b.toml       model = "./c.json"
//   typed         --machine ./pod.json    written to out/b.toml   machine = "../pod.json"
#pragma once

#include <string>
#include <vector>

#include "document/value.h"
#include "report/run_file_text.h"

namespace steelyard {

// Edits of the keys whose relative paths start elsewhere once the run, whose own start at `folder`, stands in `to_folder`.
// Absolute paths and names stay, and so do paths that are the same from both.
std::vector<KeyEdit> moved_paths(const Value& run, const std::string& folder,
                                 const std::string& to_folder);

// The same for a file that is written; "-", stdout, is written where the command runs.
std::vector<KeyEdit> paths_for_file(const Value& run, const std::string& folder,
                                    const std::string& file);

}  // namespace steelyard
