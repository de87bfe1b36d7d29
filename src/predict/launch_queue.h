// How far a host runs ahead of its device, which matters where the allocator waits for the device.
//
//   host     layer 1 2 3 ... 28 29|30          launches, until the queue is full
//   device   layer 1 2                         passes each a thousand launches later
//
// A block that a collective used, and that torch recorded on the collective's stream, comes back to the allocator when the
// device has passed; until then the host finds nothing free and the allocator reserves anew. It never ends a run: before
// an error the allocator waits for the device and takes all of them back.
#pragma once

#include "allocator/replay_program.h"
#include "job/job.h"

namespace steelyard {

// `launches`: of the tapes, as the workbook has them.
LaunchQueue launch_queue(const Job& job, const std::vector<std::int64_t>& launches);

}  // namespace steelyard
