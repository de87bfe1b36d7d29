#include "predict/prepared_job.h"

#include <algorithm>

#include "machine/machine.h"
#include "predict/band.h"
#include "predict/reserve.h"
#include "predict/runtime.h"

namespace steelyard {

std::optional<StepTime> expected_time(const Job& job) {
  const Machine* machine = usual_machine(*job.cluster.device);
  if (machine == nullptr) return std::nullopt;
  return StepClock(job).read(*job.cluster.device, *machine, Outlook::kExpected);
}

LayoutNeed PreparedJob::need() {
  const ErrorBand observed(job_);
  const RuntimeBytes runtime = runtime_bytes(job_);
  LayoutNeed need;
  for (std::int64_t stage = 0; stage < job_.parallel.pipeline; ++stage) {
    const Crest crest = programs_.crest(stage);
    const Piles piles = piles_at(crest);
    const LaterReserve reserve = estimated_later_reserve(crest.height, crest.change);
    const Bytes device = std::max(reserve.expected, Bytes(crest.height)) + runtime.expected;
    const Band ends{reserve.least + runtime.low, reserve.most + runtime.high};
    need.high = std::max(need.high, observed.widened(ends, {piles, true}).high);
    if (stage > 0 && device <= need.device) continue;
    need.device = device;
    need.pipeline = stage;
    need.binds = largest_pile(piles);
  }
  need.fits = need.high <= job_.cluster.device->capacity;
  need.high = std::max(need.high, need.device);
  return need;
}

std::optional<Seconds> PreparedJob::step() {
  const Device& device = *job_.cluster.device;
  const Machine* machine = usual_machine(device);
  if (machine == nullptr) return std::nullopt;
  return StepClock(job_, programs_).read(device, *machine, Outlook::kExpected).step;
}

}  // namespace steelyard
