#include "predict/launch_queue.h"

namespace steelyard {
namespace {

// Launches that a device's queue holds before the next one blocks the host: "about 1000 kernels"
// (https://forums.developer.nvidia.com/t/68937), where it is read as the power of two.
constexpr std::int64_t kQueuedLaunches = 1024;

}  // namespace

LaunchQueue launch_queue(const Job& job, const std::vector<std::int64_t>& launches) {
  if (job.recorded == RecordedCollectives::kNone) return {};
  // Between stages the host meets the device at each message: nanotron copies its sizes from pageable memory and reads
  // them back (pipeline_parallel/p2p.py), Megatron synchronises behind each exchange (p2p_communication.py). How far it
  // comes ahead between two messages is not followed.
  if (job.parallel.pipeline > 1) return {};
  return {kQueuedLaunches, launches,
          job.recorded == RecordedCollectives::kAll ? Exchanged::kWaitedFor : Exchanged::kBeside};
}

}  // namespace steelyard
