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

LayoutNeed PreparedJob::need(bool only_if_it_fits) {
  const ErrorBand observed(job_);
  const RuntimeBytes runtime = runtime_bytes(job_);
  LayoutNeed need;
  const auto look_at = [&](std::int64_t stage, const Crest& crest) {
    const Piles piles = piles_at(crest);
    const LaterReserve reserve = estimated_later_reserve(crest.height, crest.change);
    const Bytes device = std::max(reserve.expected, Bytes(crest.height)) + runtime.expected;
    const Band ends{reserve.least + runtime.low, reserve.most + runtime.high};
    need.high = std::max(need.high, observed.needed(ends, piles).high);
    if (stage > 0 && device <= need.device) return;
    need.device = device;
    need.pipeline = stage;
    need.binds = largest_pile(piles);
  };
  const Bytes usable = job_.cluster.device->capacity;
  for (std::int64_t stage = 0; stage < job_.parallel.pipeline; ++stage) {
    if (only_if_it_fits && need.high > usable && need.device <= usable) break;
    const Crest first = programs_.crest(stage);
    look_at(stage, first);
    const std::int64_t last = programs_.last_alike(stage);
    if (last <= stage + 1) continue;
    // Those between the first and the last need no more than the first.
    if (const Crest end = programs_.crest(last); end.phase == first.phase) {
      look_at(last, end);
      stage = last;
    }
  }
  need.fits = need.high <= usable;
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
