// What was written, read again as anyone would: is it the run that was weighed? Where it is another, what differs is said.
//
//   lost_on_reading(exported, run, "")     training.attention = "efficient": what is written starts "flash" (39.3 GiB, fits)
#pragma once

#include <string>
#include <vector>

#include "document/value.h"
#include "formats/launch/launch.h"

namespace steelyard {

// `run` names everything, and its paths start at `folder`, as those of the written files do. Empty: the same bytes, time and
// verdict, or both are not weighed yet.
std::vector<ConfigWriter::Loss> lost_on_reading(const Exported& exported, const Value& run,
                                                const std::string& folder);

}  // namespace steelyard
