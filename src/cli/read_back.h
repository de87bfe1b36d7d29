// What was written, read again as anyone would: is it the run that was weighed? Where it is another, what differs is said.
//
//   read_back(exported, run, "").losses    training.attention = "efficient": what is written starts "flash" (39.3 GiB, fits)
#pragma once

#include <string>
#include <vector>

#include "document/value.h"
#include "formats/launch/launch.h"

namespace steelyard {

struct ReadBack {
  // Empty: the same bytes, time and verdict, or the run is not weighed yet.
  std::vector<ConfigWriter::Loss> losses;
  Diagnostics problems;  // another model would train
};

// `run` names everything, and its paths start at `folder`, as those of the written files do.
ReadBack read_back(const Exported& exported, const Value& run, const std::string& folder);

}  // namespace steelyard
