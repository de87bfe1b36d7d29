#include "predict/launch_queue.h"

#include "cost/step_time.h"

namespace steelyard {
namespace {

// Launches that a device's queue holds before the next one blocks the host: "about 1000 kernels"
// (https://forums.developer.nvidia.com/t/68937), where it is read as the power of two.
constexpr std::int64_t kQueuedLaunches = 1024;

// Below this part of a step its device is behind all the same.
constexpr double kWaits = 0.05;

// Hosts that check each collective with each other stop there, and a device that waits for them is never behind.
bool waits_for_checks(const Job& job) {
  if (!job.checks_collectives || job.cluster.machine == nullptr) return false;
  const StepTime time = step_time(job, *job.cluster.machine);
  return time.terms[TimeTerm::kHost] > kWaits * time.step.value();
}

}  // namespace

LaunchQueue launch_queue(const Job& job, const std::vector<std::int64_t>& launches) {
  if (job.recorded == RecordedCollectives::kNone) return {};
  // Between stages the host meets the device at each message: nanotron copies its sizes from pageable memory and reads
  // them back (pipeline_parallel/p2p.py), Megatron synchronises behind each exchange (p2p_communication.py). How far it
  // comes ahead between two messages is not followed.
  if (job.parallel.pipeline > 1 || waits_for_checks(job)) return {};
  return {kQueuedLaunches, launches,
          job.recorded == RecordedCollectives::kAll ? Exchanged::kWaitedFor : Exchanged::kBeside};
}

}  // namespace steelyard
