#include "cost/step_time.h"

#include <algorithm>

#include "cost/part_time.h"
#include "engine/stage_program.h"

namespace steelyard {

namespace {

StepEnd end_of(const StepWork& work, const Device& device, const Machine& machine,
               Outlook outlook) {
  return {work.job,
          data_exchange_of(work.job),
          work.held.front().trained.dense,
          work.groups.data,
          work.groups.same_experts,
          device,
          machine,
          outlook};
}

void add_end(const StepWork& work, const StepEnd& end, const WorkTime& worst, StepTime& result) {
  const StepEnd::Terms terms =
      end.after(work.heaviest, worst.forward.total(), worst.backward.total());
  result.hidden[TimeTerm::kData] += terms.hidden;
  result.terms[TimeTerm::kData] += terms.data;
  const bool on_host = work.job.offload.optimizer != OffloadTarget::kNone;
  result.terms[on_host ? TimeTerm::kOffload : TimeTerm::kOptimizer] += terms.optimizer;
}

std::vector<PartSeconds> seconds_of(const std::vector<WorkTime>& parts) {
  std::vector<PartSeconds> seconds;
  for (const WorkTime& part : parts) seconds.push_back(seconds_of(part));
  return seconds;
}

struct PassageTerms {
  TimeTerms terms, hidden;
};
PassageTerms terms_of(StepKind kind, const WorkTime& part) {
  switch (kind) {
    case StepKind::kForward:
    case StepKind::kLookup:
    case StepKind::kOutput:
      return {part.forward, part.hidden_forward};
    case StepKind::kBackward:
    case StepKind::kLookupBackward:
    case StepKind::kOutputBackward:
      return {part.backward, part.hidden_backward};
    case StepKind::kInputBackward: {
      TimeTerms terms = part.backward;
      return {terms -= part.weight_turn, part.hidden_backward};
    }
    case StepKind::kWeightBackward:
      break;
  }
  return {part.weight_turn, {}};
}

// Of all devices: floating-point operations, and what they make of the step.
void count_work(const StepWork& work, const std::vector<WorkTime>& parts, const Device& device,
                StepTime& result) {
  const Job& job = work.job;
  for (std::size_t at = 0; at < parts.size(); ++at) {
    const bool of_all = static_cast<std::int64_t>(at) >= work.line();
    const double ranks = of_all ? static_cast<double>(work.shape.ranks) : 1.0;
    result.model_flops += parts[at].model_flops * ranks;
    result.executed_flops += parts[at].executed_flops * ranks;
  }
  const double replicas = static_cast<double>(job.parallel.data) *
                          static_cast<double>(job.training.gradient_accumulation) *
                          static_cast<double>(job.parallel.tensor) *
                          static_cast<double>(job.parallel.context);
  result.model_flops *= replicas;
  result.executed_flops *= replicas;
  const auto devices = static_cast<double>(job.cluster.devices.value());
  const double tokens = static_cast<double>(job.training.global_batch) *
                        static_cast<double>(job.training.sequence_length.value());
  result.tokens_per_second_per_device = tokens / result.step.value() / devices;
  const Precision& precision = job.training.precision;
  const double most = peak_rate(device, precision.compute, precision.short_products).value() *
                      devices * result.step.value();
  result.model_flops_utilization = result.model_flops / most;
  result.hardware_flops_utilization = result.executed_flops / most;
}

}  // namespace

StepClock::StepClock(const Job& job) {
  StagePrograms<Checked> programs(job);
  work_ = std::make_unique<StepWork>(job, programs);
}
StepClock::StepClock(const Job& job, StagePrograms<Checked>& programs)
    : work_(std::make_unique<StepWork>(job, programs)) {}
StepClock::StepClock(const Job& job, const StepClock& alike)
    : work_(std::make_unique<StepWork>(job, *alike.work_)) {}
StepClock::~StepClock() = default;

void StepClock::settle(const Device& device, const Machine& machine) {
  auto known = std::make_shared<StepWork::Settled>();
  known->device = &device;
  known->machine = &machine;
  for (const bool split : {false, true})
    known->stretches[split ? 1 : 0] =
        PartClock(*work_, device, machine, Outlook::kExpected, split).passages();
  work_->settled = std::move(known);
}

StepTime StepClock::read(const Device& device, const Machine& machine, Outlook outlook) const {
  const PartClock clock(*work_, device, machine, outlook);
  const std::vector<WorkTime> parts = clock.parts();
  const WorkTime worst = clock.slowest_rank(parts);
  const auto times = static_cast<double>(work_->micro_batches);
  StepTime result;
  result.terms += worst.forward * times;
  result.terms += worst.backward * times;
  result.hidden = worst.hidden() * times;
  if (work_->shape.ranks > 1)
    result.terms[TimeTerm::kBubble] +=
        std::max(0.0, pipeline_seconds(work_->order, work_->shape, seconds_of(parts)) -
                          worst.seconds() * times);
  add_end(*work_, end_of(*work_, device, machine, outlook), worst, result);
  result.step = Seconds(result.terms.total());
  count_work(*work_, parts, device, result);
  return result;
}

StepTime StepClock::read(const Device& device, const Machine& machine) const {
  StepTime result = read(device, machine, Outlook::kExpected);
  result.low = read(device, machine, Outlook::kFast).step;
  result.high = read(device, machine, Outlook::kSlow).step;
  return result;
}

StepPlay StepClock::play(const Device& device, const Machine& machine) const {
  const PartClock clock(*work_, device, machine, Outlook::kExpected);
  const std::vector<WorkTime> parts = clock.parts();
  StepPlay play;
  for (const PlayedSeconds& played :
       played_seconds(work_->order, work_->shape, seconds_of(parts))) {
    const WorkTime& part = parts[work_->part_of_step(played.rank, played.step)];
    const PassageTerms passage = terms_of(played.step.kind, part);
    play.passages.push_back({played.step, played.rank, played.micro_batch, played.start, played.end,
                             passage.terms, passage.hidden});
    play.end_of_passages = std::max(play.end_of_passages, played.end);
  }
  StepTime last;
  add_end(*work_, end(device, machine), clock.slowest_rank(parts), last);
  play.end = last.terms;
  play.hidden_before_end = last.hidden;
  return play;
}

StepClock::Passage StepClock::passage(const Device& device, const Machine& machine) const {
  const PartClock clock(*work_, device, machine, Outlook::kExpected, true);
  Passage passage;
  for (const WorkTime& part : clock.parts()) {
    passage.forward += part.forward;
    passage.input += part.backward;
    passage.input -= part.weight_turn;
  }
  return passage;
}

std::vector<StepClock::OnUnit> StepClock::on_units(const Device& device, const Machine& machine,
                                                   bool split) const {
  const PartClock clock(*work_, device, machine, Outlook::kExpected, split);
  const std::vector<WorkTime> stretches = clock.stretches();
  std::vector<OnUnit> units(work_->held.size());
  for (std::size_t i = 0; i < stretches.size(); ++i)
    units[work_->unit_of(i)] = {seconds_of(stretches[i]), work_->held_by_stretch(i)};
  return units;
}

std::vector<StepClock::OnUnit> StepClock::on_units_alone(const Device& device,
                                                         const Machine& machine) const {
  const PartClock clock(*work_, device, machine, Outlook::kExpected, false);
  const std::vector<StretchPassages>& passages = clock.passages();
  std::vector<OnUnit> units(work_->held.size());
  for (std::size_t i = 0; i < passages.size(); ++i)
    units[work_->unit_of(i)] = {
        {passages[i].forward.terms.total(), passages[i].backward.terms.total(), 0},
        work_->held_by_stretch(i)};
  return units;
}

double StepClock::seconds_of_a_send(const Device& device, const Machine& machine) const {
  return work_->seconds_of_a_send(ExchangeClock(device, machine, Outlook::kExpected));
}

StepEnd StepClock::end(const Device& device, const Machine& machine) const {
  return end_of(*work_, device, machine, Outlook::kExpected);
}

StepTime step_time(const Job& job, const Machine& machine) {
  return StepClock(job).read(*job.cluster.device, machine);
}

}  // namespace steelyard
