#include "cost/step_time.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "cost/pipeline_time.h"
#include "cost/step_end.h"
#include "cost/stretch_time.h"
#include "job/pipeline_shape.h"

namespace steelyard {

namespace {

constexpr std::array<std::string_view, kTimeTerms> kNames = {
    "compute",  "recompute", "tensor",  "context",   "expert", "data",
    "pipeline", "bubble",    "offload", "optimizer", "host"};

std::vector<HeldParameters> held_by(const ModelUnits<Checked>& units, bool divided) {
  std::vector<HeldParameters> held;
  const auto add = [&](const Unit<Checked>& unit) {
    const auto experts = static_cast<double>(plain(unit.expert_elements));
    held.push_back({static_cast<double>(plain(unit.elements)) - experts, experts});
  };
  add(units.embedding);
  for (const Unit<Checked>& kind : units.kinds) add(kind);
  add(units.head);
  if (divided) add(units.vocabulary_rows);
  return held;
}

}  // namespace

bool sends_beside_compute(bool on_torch, PipelineSchedule schedule) {
  if (on_torch) return false;
  switch (schedule) {
    case PipelineSchedule::kGPipe:
    case PipelineSchedule::kOneForwardOneBackward:
    case PipelineSchedule::kLoopedBreadthFirst:
      return false;
    default:
      return true;
  }
}

// What of a job does not depend on a device.
struct StepClock::Prepared {
  Prepared(const Job& asked, StagePrograms<Checked>& programs)
      : Prepared(asked, std::make_shared<const PipelineWork>(programs.work(asked.recompute)),
                 held_by(programs.units(), divides_vocabulary(asked)),
                 boundary_bytes_of(asked, programs.sizes())) {}
  Prepared(const Job& asked, const Prepared& alike)
      : Prepared(asked, alike.held_work, alike.held, alike.boundary_bytes) {
    settled = alike.settled;
  }
  void settle(const Device& device, const Machine& machine);

  void find_heaviest() {
    for (std::int64_t rank = 0; rank < shape.ranks; ++rank) {
      HeldParameters here;
      for (int chunk = 0; chunk < static_cast<int>(shape.chunks); ++chunk)
        for (const PipelineWork::Count& count : work.parts[part_on(rank, chunk)])
          here += held_by_stretch(count.stretch) * static_cast<double>(count.times);
      if (divides_vocabulary(job)) here += held.back();
      heaviest.raise_to(here);
    }
  }

  std::size_t part_on(std::int64_t rank, int chunk) const {
    return static_cast<std::size_t>(part_of(order.placement, shape, rank, chunk).index);
  }
  // Parts of the line; those behind it are every rank's.
  std::int64_t line() const { return parts_in_line(order.placement, shape); }
  std::size_t part_of_step(std::int64_t rank, const PipelineStep& step) const {
    if (!is_of_vocabulary(step.kind)) return part_on(rank, step.chunk);
    return static_cast<std::size_t>(line()) + (step.kind >= StepKind::kOutput ? 1 : 0);
  }
  const HeldParameters& held_by_stretch(std::size_t stretch) const {
    return held[static_cast<std::size_t>(work.stretches[stretch].unit)];
  }

  StepTime read(const Device& device, const Machine& machine, Outlook outlook) const;
  StepPlay play(const Device& device, const Machine& machine) const;
  Passage passage(const Device& device, const Machine& machine) const;
  std::vector<OnUnit> on_units(const Device& device, const Machine& machine, bool split) const;
  std::vector<OnUnit> on_units_alone(const Device& device, const Machine& machine) const;
  double seconds_of_a_send(const Device& device, const Machine& machine) const {
    return seconds_of_a_send(ExchangeClock(device, machine, Outlook::kExpected));
  }
  StepEnd end(const Device& device, const Machine& machine) const {
    return {job,     data_exchange_of(job), groups.data, groups.same_experts, device,
            machine, Outlook::kExpected};
  }

  Prepared(const Job& asked, std::shared_ptr<const PipelineWork> work_of_parts,
           std::vector<HeldParameters> held_by_units, double bytes_at_boundaries)
      : job(asked),
        order(pipeline_order(job)),
        shape(pipeline_shape(job)),
        micro_batches(micro_batches_of_chunk(order.placement, shape)),
        groups(groups_of(job)),
        held_work(std::move(work_of_parts)),
        work(*held_work),
        held(std::move(held_by_units)),
        boundary_bytes(bytes_at_boundaries) {
    find_heaviest();
  }
  // What a stage sends on of one micro-batch.
  static double boundary_bytes_of(const Job& job, const Sizes<Checked>& sizes) {
    return static_cast<double>(plain(sizes.shard_tokens)) *
           static_cast<double>(plain(sizes.hidden)) * bytes_each(job.training.precision.compute);
  }
  struct Parts {
    std::vector<WorkTime> parts;
    std::vector<PartSeconds> seconds;
  };
  // Stretches as expected on one device and machine, backward whole and in two parts: alike jobs share them.
  struct Settled {
    const Device* device = nullptr;
    const Machine* machine = nullptr;
    std::array<std::vector<StretchPassages>, 2> stretches;  // by whether backward is split
  };
  StretchClock stretch_clock(const Device& device, const KernelClock& kernels,
                             const ExchangeClock& exchanges, Outlook outlook) const;
  double paired_share() const;
  bool splits_backward() const { return order.splits_backward && shape.ranks > 1; }
  double seconds_of_a_send(const ExchangeClock& exchanges) const;
  std::vector<StretchPassages> passages_of(const StretchClock& clock) const;
  const std::vector<StretchPassages>* settled_on(const Device& device, const Machine& machine,
                                                 Outlook outlook, bool split) const;
  Parts parts_of(const StretchClock& clock, const ExchangeClock& exchanges,
                 const std::vector<StretchPassages>* known) const;
  WorkTime slowest_rank(const std::vector<WorkTime>& parts) const;
  void end_of_step(const Device& device, const Machine& machine, const DataExchange& data,
                   const WorkTime& worst, Outlook outlook, StepTime& result) const;

  const Job& job;
  const PipelineOrder& order;
  const PipelineShape shape;
  const std::int64_t micro_batches;  // of each chunk
  const RankGroups groups;
  const std::shared_ptr<const PipelineWork> held_work;  // alike jobs share it
  const PipelineWork& work;
  std::shared_ptr<const Settled> settled;  // null: not yet
  const std::vector<HeldParameters> held;  // by each unit on its rank
  double boundary_bytes = 0;  // hidden states of one micro-batch from one part to the next
  HeldParameters heaviest;    // the most that a rank has
};

StretchClock StepClock::Prepared::stretch_clock(const Device& device, const KernelClock& kernels,
                                                const ExchangeClock& exchanges,
                                                Outlook outlook) const {
  const AchievedRates& rates = achieved_rates(device);
  const bool from_host = job.offload.parameters != OffloadTarget::kNone;
  return {kernels,
          exchanges,
          groups,
          data_exchange_of(job),
          at(rates.overlap_slowdown, outlook),
          from_host ? device.host_link.value() * at(rates.host_link, outlook) : 0,
          static_cast<double>(groups.data.ranks.value()),
          splits_backward(),
          paired_share()};
}

// Forwards before a rank's first backward have no pair, one more than without pairs, and as many backwards at its end
// (megatron/core/pipeline_parallel/schedules.py, get_pp_rank_microbatches). No more is in flight: in a pair the forward
// goes through the layers that the backward leaves.
double StepClock::Prepared::paired_share() const {
  if (!job.overlap_expert) return 0;
  const auto alone = static_cast<double>(in_flight(order.rank_order(shape, 0), shape.chunks).most);
  return std::max(0.0, 1 - alone / static_cast<double>(micro_batches * shape.chunks));
}

std::vector<StretchPassages> StepClock::Prepared::passages_of(const StretchClock& clock) const {
  std::vector<StretchPassages> passages;
  for (const PipelineWork::Stretch& stretch : work.stretches)
    passages.push_back(clock.passages(stretch));
  return passages;
}

void StepClock::Prepared::settle(const Device& device, const Machine& machine) {
  const KernelClock kernels(device, Outlook::kExpected);
  const ExchangeClock exchanges(device, machine, Outlook::kExpected);
  StretchClock clock = stretch_clock(device, kernels, exchanges, Outlook::kExpected);
  auto known = std::make_shared<Settled>();
  known->device = &device;
  known->machine = &machine;
  for (const bool split : {false, true}) {
    clock.splits_backward = split;
    known->stretches[split ? 1 : 0] = passages_of(clock);
  }
  settled = std::move(known);
}

const std::vector<StretchPassages>* StepClock::Prepared::settled_on(const Device& device,
                                                                    const Machine& machine,
                                                                    Outlook outlook,
                                                                    bool split) const {
  const bool known = settled && settled->device == &device && settled->machine == &machine &&
                     outlook == Outlook::kExpected;
  return known ? &settled->stretches[split ? 1 : 0] : nullptr;
}

double StepClock::Prepared::seconds_of_a_send(const ExchangeClock& exchanges) const {
  // With sequence parallelism each tensor rank has a part of its own anyway.
  const bool parts = job.parallel.scattered_transfers && !job.parallel.sequence_parallel;
  const double divided = parts ? static_cast<double>(job.parallel.tensor) : 1.0;
  const double sent =
      exchanges.send(boundary_bytes / divided, groups.stages_across_machines).value();
  if (!parts) return sent;
  return sent + exchanges.time(ExchangeKind::kAllGather, boundary_bytes, groups.tensor).value();
}

std::vector<StepClock::OnUnit> StepClock::Prepared::on_units(const Device& device,
                                                             const Machine& machine,
                                                             bool split) const {
  const KernelClock kernels(device, Outlook::kExpected);
  const ExchangeClock exchanges(device, machine, Outlook::kExpected);
  StretchClock clock = stretch_clock(device, kernels, exchanges, Outlook::kExpected);
  clock.splits_backward = split;
  std::vector<StretchPassages> made;
  const auto* known = settled_on(device, machine, Outlook::kExpected, split);
  if (known == nullptr) {
    made = passages_of(clock);
    known = &made;
  }
  std::vector<OnUnit> units(held.size());
  for (std::size_t i = 0; i < known->size(); ++i) {
    const WorkTime work_of_one = clock.time((*known)[i], held_by_stretch(i).all());
    const double weights = work_of_one.weight_turn.total();
    units[static_cast<std::size_t>(work.stretches[i].unit)] = {
        {work_of_one.forward.total(), work_of_one.backward.total() - weights, weights},
        held_by_stretch(i)};
  }
  return units;
}

std::vector<StepClock::OnUnit> StepClock::Prepared::on_units_alone(const Device& device,
                                                                   const Machine& machine) const {
  const KernelClock kernels(device, Outlook::kExpected);
  const ExchangeClock exchanges(device, machine, Outlook::kExpected);
  StretchClock clock = stretch_clock(device, kernels, exchanges, Outlook::kExpected);
  clock.splits_backward = false;
  std::vector<OnUnit> units(held.size());
  for (std::size_t i = 0; i < work.stretches.size(); ++i) {
    const StretchPassages alone = clock.passages(work.stretches[i]);
    units[static_cast<std::size_t>(work.stretches[i].unit)] = {
        {alone.forward.terms.total(), alone.backward.terms.total(), 0}, held_by_stretch(i)};
  }
  return units;
}

StepClock::Prepared::Parts StepClock::Prepared::parts_of(
    const StretchClock& clock, const ExchangeClock& exchanges,
    const std::vector<StretchPassages>* known) const {
  std::vector<StretchPassages> made;
  if (known == nullptr) made = passages_of(clock);
  const std::vector<StretchPassages>& passages = known == nullptr ? made : *known;
  std::vector<WorkTime> stretches;
  for (std::size_t i = 0; i < passages.size(); ++i)
    stretches.push_back(clock.time(passages[i], held_by_stretch(i).all()));
  const double each_send = job.parallel.pipeline > 1 ? seconds_of_a_send(exchanges) : 0;
  const bool hides_sends =
      sends_beside_compute(runs_on_torch_pipelining(job), job.parallel.schedule);
  Parts result;
  for (std::size_t at = 0; at < work.parts.size(); ++at) {
    const std::vector<PipelineWork::Count>& counts = work.parts[at];
    if (at > 0 && counts == work.parts[at - 1]) {  // most stages are cut alike
      result.seconds.push_back(result.seconds.back());
      result.parts.push_back(result.parts.back());
      continue;
    }
    WorkTime part;
    for (const PipelineWork::Count& count : counts)
      part += stretches[count.stretch] * static_cast<double>(count.times);
    // Forward sends on what backward sends back: both directions are waited for at once. A divided vocabulary's exchanges
    // run beside layers, or are operators of its own.
    const double sent = static_cast<std::int64_t>(at) < line() ? each_send : 0;
    (hides_sends ? part.hidden : part.forward)[TimeTerm::kPipeline] += sent;
    (hides_sends ? part.hidden : part.backward)[TimeTerm::kPipeline] += sent;
    const double weights = part.weight_turn.total();
    result.seconds.push_back({part.forward.total(), part.backward.total() - weights, weights});
    result.parts.push_back(part);
  }
  return result;
}

StepPlay StepClock::Prepared::play(const Device& device, const Machine& machine) const {
  const KernelClock kernels(device, Outlook::kExpected);
  const ExchangeClock exchanges(device, machine, Outlook::kExpected);
  const StretchClock clock = stretch_clock(device, kernels, exchanges, Outlook::kExpected);
  const Parts timed = parts_of(clock, exchanges, nullptr);
  StepPlay play;
  for (const PlayedSeconds& played : played_seconds(order, shape, timed.seconds)) {
    const WorkTime& work_here = timed.parts[part_of_step(played.rank, played.step)];
    StepPlay::Passage passage{played.step,  played.rank, played.micro_batch,
                              played.start, played.end,  {}};
    switch (played.step.kind) {
      case StepKind::kForward:
      case StepKind::kLookup:
      case StepKind::kOutput:
        passage.terms = work_here.forward;
        break;
      case StepKind::kBackward:
      case StepKind::kLookupBackward:
      case StepKind::kOutputBackward:
        passage.terms = work_here.backward;
        break;
      case StepKind::kInputBackward:
        passage.terms = work_here.backward;
        for (std::size_t term = 0; term < kTimeTerms; ++term)
          passage.terms.seconds[term] -= work_here.weight_turn.seconds[term];
        break;
      case StepKind::kWeightBackward:
        passage.terms = work_here.weight_turn;
        break;
    }
    play.end_of_passages = std::max(play.end_of_passages, played.end);
    play.passages.push_back(passage);
  }
  StepTime last;
  end_of_step(device, machine, clock.data, slowest_rank(timed.parts), Outlook::kExpected, last);
  play.end = last.terms;
  return play;
}

// A micro-batch on the rank that works longest.
WorkTime StepClock::Prepared::slowest_rank(const std::vector<WorkTime>& parts) const {
  WorkTime worst;
  for (std::int64_t rank = 0; rank < shape.ranks; ++rank) {
    WorkTime here;
    for (int chunk = 0; chunk < static_cast<int>(shape.chunks); ++chunk)
      here += parts[part_on(rank, chunk)];
    if (here.seconds() > worst.seconds()) worst = here;
  }
  for (auto part = static_cast<std::size_t>(line()); part < parts.size(); ++part)
    worst += parts[part];
  return worst;
}

StepClock::Passage StepClock::Prepared::passage(const Device& device,
                                                const Machine& machine) const {
  const KernelClock kernels(device, Outlook::kExpected);
  const ExchangeClock exchanges(device, machine, Outlook::kExpected);
  StretchClock clock = stretch_clock(device, kernels, exchanges, Outlook::kExpected);
  clock.splits_backward = true;
  const std::vector<StretchPassages>* known = settled_on(device, machine, Outlook::kExpected, true);
  Passage passage;
  for (const WorkTime& part : parts_of(clock, exchanges, known).parts) {
    passage.forward += part.forward;
    passage.input += part.backward;
    passage.input += part.weight_turn * -1.0;
  }
  return passage;
}

StepTime StepClock::Prepared::read(const Device& device, const Machine& machine,
                                   Outlook outlook) const {
  const KernelClock kernels(device, outlook);
  const ExchangeClock exchanges(device, machine, outlook);
  const StretchClock clock = stretch_clock(device, kernels, exchanges, outlook);
  const Parts timed =
      parts_of(clock, exchanges, settled_on(device, machine, outlook, clock.splits_backward));
  const std::vector<WorkTime>& parts = timed.parts;
  StepTime result;
  for (std::size_t at = 0; at < parts.size(); ++at) {
    const bool of_all = static_cast<std::int64_t>(at) >= line();
    const double ranks = of_all ? static_cast<double>(shape.ranks) : 1.0;
    result.model_flops += parts[at].model_flops * ranks;
    result.executed_flops += parts[at].executed_flops * ranks;
  }
  const WorkTime worst = slowest_rank(parts);
  const auto times = static_cast<double>(micro_batches);
  TimeTerms& terms = result.terms;
  terms += worst.forward * times;
  terms += worst.backward * times;
  result.hidden = worst.hidden * times;
  if (shape.ranks > 1)
    terms[TimeTerm::kBubble] +=
        std::max(0.0, pipeline_seconds(order, shape, timed.seconds) - worst.seconds() * times);
  end_of_step(device, machine, clock.data, worst, outlook, result);
  result.step = Seconds(terms.total());

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
  const double most =
      peak_rate(device, job.training.precision.compute).value() * devices * result.step.value();
  result.model_flops_utilization = result.model_flops / most;
  result.hardware_flops_utilization = result.executed_flops / most;
  return result;
}

void StepClock::Prepared::end_of_step(const Device& device, const Machine& machine,
                                      const DataExchange& data, const WorkTime& worst,
                                      Outlook outlook, StepTime& result) const {
  const StepEnd end(job, data, groups.data, groups.same_experts, device, machine, outlook);
  const StepEnd::Terms terms = end.after(heaviest, worst.forward.total(), worst.backward.total());
  result.hidden[TimeTerm::kData] += terms.hidden;
  result.terms[TimeTerm::kData] += terms.data;
  const TimeTerm term =
      job.offload.optimizer == OffloadTarget::kNone ? TimeTerm::kOptimizer : TimeTerm::kOffload;
  result.terms[term] += terms.optimizer;
}

StepClock::StepClock(const Job& job) {
  StagePrograms<Checked> programs(job);
  prepared_ = std::make_unique<Prepared>(job, programs);
}
StepClock::StepClock(const Job& job, StagePrograms<Checked>& programs)
    : prepared_(std::make_unique<Prepared>(job, programs)) {}
StepClock::StepClock(const Job& job, const StepClock& alike)
    : prepared_(std::make_unique<Prepared>(job, *alike.prepared_)) {}
StepClock::~StepClock() = default;

void StepClock::settle(const Device& device, const Machine& machine) {
  prepared_->settle(device, machine);
}

StepTime StepClock::read(const Device& device, const Machine& machine, Outlook outlook) const {
  return prepared_->read(device, machine, outlook);
}

StepPlay StepClock::play(const Device& device, const Machine& machine) const {
  return prepared_->play(device, machine);
}

StepClock::Passage StepClock::passage(const Device& device, const Machine& machine) const {
  return prepared_->passage(device, machine);
}

std::vector<StepClock::OnUnit> StepClock::on_units(const Device& device, const Machine& machine,
                                                   bool split) const {
  return prepared_->on_units(device, machine, split);
}

std::vector<StepClock::OnUnit> StepClock::on_units_alone(const Device& device,
                                                         const Machine& machine) const {
  return prepared_->on_units_alone(device, machine);
}

double StepClock::seconds_of_a_send(const Device& device, const Machine& machine) const {
  return prepared_->seconds_of_a_send(device, machine);
}

StepEnd StepClock::end(const Device& device, const Machine& machine) const {
  return prepared_->end(device, machine);
}

StepTime StepClock::read(const Device& device, const Machine& machine) const {
  StepTime result = read(device, machine, Outlook::kExpected);
  result.low = read(device, machine, Outlook::kFast).step;
  result.high = read(device, machine, Outlook::kSlow).step;
  return result;
}

std::string_view name_of(TimeTerm term) { return kNames[static_cast<std::size_t>(term)]; }

double TimeTerms::total() const { return std::accumulate(seconds.begin(), seconds.end(), 0.0); }

TimeTerms& TimeTerms::operator+=(const TimeTerms& other) {
  for (std::size_t i = 0; i < kTimeTerms; ++i) seconds[i] += other.seconds[i];
  return *this;
}

TimeTerms operator*(TimeTerms terms, double times) {
  for (double& part : terms.seconds) part *= times;
  return terms;
}

StepTime step_time(const Job& job, const Machine& machine) {
  return StepClock(job).read(*job.cluster.device, machine);
}

}  // namespace steelyard
