#include "cost/part_time.h"

#include "job/pipeline_shape.h"

namespace steelyard {

PartSeconds seconds_of(const WorkTime& work) {
  const double weights = work.weight_turn.total();
  return {work.forward.total(), work.backward.total() - weights, weights};
}

namespace {

StretchClock stretch_clock(const StepWork& work, const Device& device, const Machine& machine,
                           const KernelClock& kernels, const ExchangeClock& exchanges,
                           Outlook outlook, bool splits) {
  const AchievedRates& rates = achieved_rates(device);
  const bool from_host = work.job.offload.parameters != OffloadTarget::kNone;
  return {kernels,
          exchanges,
          work.groups,
          data_exchange_of(work.job),
          at(rates.overlap_slowdown, outlook),
          from_host ? device.host_link.value() * at(rates.host_link, outlook) : 0,
          static_cast<double>(work.groups.data.ranks.value()),
          host_work_of(work.job),
          work.job.graphs,
          operator_seconds(device, machine, outlook),
          splits,
          work.paired_share()};
}

}  // namespace

PartClock::PartClock(const StepWork& work, const Device& device, const Machine& machine,
                     Outlook outlook, bool splits)
    : work_(work),
      kernels_(device, outlook, work.job.training.precision.short_products),
      exchanges_(device, machine, outlook),
      clock_(stretch_clock(work, device, machine, kernels_, exchanges_, outlook, splits)) {
  const StepWork::Settled* settled = work.settled.get();
  if (settled != nullptr && settled->device == &device && settled->machine == &machine &&
      outlook == Outlook::kExpected) {
    known_ = &settled->stretches[splits ? 1 : 0];
    return;
  }
  for (const PipelineWork::Stretch& stretch : work.kernels->stretches)
    made_.push_back(clock_.passages(stretch));
}

std::vector<WorkTime> PartClock::stretches() const {
  std::vector<WorkTime> times;
  for (std::size_t i = 0; i < passages().size(); ++i)
    times.push_back(clock_.time(passages()[i], work_.held_by_stretch(i)));
  return times;
}

std::vector<WorkTime> PartClock::parts() const {
  const Job& job = work_.job;
  const std::vector<WorkTime> of_stretches = stretches();
  const double each_send = job.parallel.pipeline > 1 ? work_.seconds_of_a_send(exchanges_) : 0;
  const bool hides_sends =
      sends_beside_compute(runs_on_torch_pipelining(job), job.parallel.schedule);
  std::vector<WorkTime> parts;
  for (std::size_t at = 0; at < work_.kernels->parts.size(); ++at) {
    const std::vector<PipelineWork::Count>& counts = work_.kernels->parts[at];
    if (at > 0 && counts == work_.kernels->parts[at - 1]) {  // most stages are cut alike
      parts.push_back(parts.back());
      continue;
    }
    WorkTime part;
    for (const PipelineWork::Count& count : counts)
      part += of_stretches[count.stretch] * static_cast<double>(count.times);
    // Forward sends on what backward sends back: both directions are waited for at once. A divided vocabulary's exchanges
    // run beside layers, or are operators of its own.
    const double sent = static_cast<std::int64_t>(at) < work_.line() ? each_send : 0;
    (hides_sends ? part.hidden_forward : part.forward)[TimeTerm::kPipeline] += sent;
    (hides_sends ? part.hidden_backward : part.backward)[TimeTerm::kPipeline] += sent;
    parts.push_back(part);
  }
  return parts;
}

WorkTime PartClock::slowest_rank(const std::vector<WorkTime>& parts) const {
  WorkTime worst;
  for (std::int64_t rank = 0; rank < work_.shape.ranks; ++rank) {
    WorkTime here;
    for (int chunk = 0; chunk < static_cast<int>(work_.shape.chunks); ++chunk)
      here += parts[work_.part_on(rank, chunk)];
    if (here.seconds() > worst.seconds()) worst = here;
  }
  for (auto part = static_cast<std::size_t>(work_.line()); part < parts.size(); ++part)
    worst += parts[part];
  return worst;
}

}  // namespace steelyard
