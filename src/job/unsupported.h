// What can be written down and not yet weighed, as one table. A row goes when its work is done.
#pragma once

#include "job/draft.h"

namespace steelyard {

// Adds an error E320 for each thing asked for that this version does not weigh. Needs the whole job.
void refuse_unsupported(Draft& draft);

}  // namespace steelyard
