#include "predict/prepared_job.h"

#include <algorithm>

#include "machine/machine.h"
#include "predict/reserve.h"
#include "predict/runtime.h"

namespace steelyard {

std::optional<StepTime> expected_time(const Job& job) {
  const Machine* machine = job.cluster.machine.get();
  if (machine == nullptr) return std::nullopt;
  return StepClock(job).read(*job.cluster.device, *machine, Outlook::kExpected);
}

PreparedJob::PreparedJob(const Job& job)
    : job_(job),
      programs_(job_),
      observed_(job_),
      runtime_(runtime_bytes(job_)),
      host_room_(host_room(job_)) {}
PreparedJob::PreparedJob(const Job& job, const PreparedForm& form)
    : job_(job),
      programs_(job_, form.drawn()),
      observed_(job_),
      runtime_(runtime_bytes(job_)),
      host_room_(host_room(job_)) {}

void PreparedJob::turn_to(const Job& job) {
  Training& training = job_.training;
  training.gradient_accumulation = job.training.gradient_accumulation;
  training.global_batch = job.training.global_batch;
  Parallel& parallel = job_.parallel;
  parallel.virtual_pipeline = job.parallel.virtual_pipeline;
  parallel.schedule = job.parallel.schedule;
  parallel.pipeline_group = job.parallel.pipeline_group;
  parallel.scattered_transfers = job.parallel.scattered_transfers;
  parallel.stage_layers = job.parallel.stage_layers;
  job_.recompute = job.recompute;
  programs_.cut_stages();
}

LayoutNeed PreparedJob::need(bool only_if_it_fits) {
  LayoutNeed need;
  const auto look_at = [&](std::int64_t stage, const Crest& crest) {
    const Piles piles = piles_at(crest);
    const LaterReserve reserve =
        estimated_later_reserve(crest.height, crest.change, job_.graphs.of);
    Bytes device = std::max(reserve.expected, Bytes(crest.height)) + runtime_.expected;
    const Band ends{reserve.least + runtime_.low, reserve.most + runtime_.high};
    need.high = std::max(need.high, observed_.needed(ends, piles).high);
    if (job_.generation.sleeps) {
      const RuntimeBytes generator = generator_bytes(job_);
      const Bytes held(crest.change);
      device = std::max(device, held + runtime_.expected + generator.expected);
      const Band awake{held + runtime_.low + generator.low, held + runtime_.high + generator.high};
      need.high = std::max(need.high, observed_.needed(awake, piles).high);
    }
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
  look_at_host(need);
  need.fits = need.high <= usable && need.on_host == Verdict::kFits;
  need.high = std::max(need.high, need.device);
  return need;
}

void PreparedJob::look_at_host(LayoutNeed& need) {
  if (!keeps_on_host(job_)) return;
  std::vector<Bytes> of_stage;
  for (std::int64_t stage = 0; stage < job_.parallel.pipeline; ++stage)
    of_stage.push_back(programs_.host(stage).on_host());
  need.host = host_of_fullest_machine(job_, of_stage);
  need.on_host = host_verdict(host_room_, need.host);
}

std::optional<Seconds> PreparedJob::step() {
  const Device& device = *job_.cluster.device;
  const Machine* machine = job_.cluster.machine.get();
  if (machine == nullptr) return std::nullopt;
  return StepClock(job_, programs_).read(device, *machine, Outlook::kExpected).step;
}

}  // namespace steelyard
