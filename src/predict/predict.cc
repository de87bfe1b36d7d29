#include <fmt/format.h>

#include <algorithm>

#include "engine/stage_program.h"
#include "ledger/replay.h"
#include "predict/band.h"
#include "predict/fullest_stages.h"
#include "predict/host_room.h"
#include "predict/launch_queue.h"
#include "predict/prediction.h"
#include "predict/reserve.h"
#include "predict/runtime.h"
#include "predict/varied_lengths.h"
#include "predict/whether_it_fits.h"
#include "quantity/print.h"

namespace steelyard {

namespace {

// Height and piles of one phase, from spans or from the judge.
struct PhaseReading {
  std::int64_t peak = kNoPeak;
  Piles piles;
};
struct RootReading {
  std::array<PhaseReading, kPhaseCount> phases;
  std::int64_t resident = 0;
  std::string fault;
};

RootReading read_spans(const Program& program, NodeId root) {
  RootReading reading;
  const Span& span = program.span(root);
  for (std::size_t phase = 0; phase < kPhaseCount; ++phase) {
    reading.phases[phase].peak = span.peak[phase];
    reading.phases[phase].piles = piles_at_peak(program, root, static_cast<Phase>(phase));
  }
  reading.resident = span.change;
  return reading;
}

RootReading read_replay(const Program& program, NodeId root) {
  RootReading reading;
  const Replay judged = replay(program, root);
  for (std::size_t phase = 0; phase < kPhaseCount; ++phase)
    reading.phases[phase] = {judged.peak[phase], judged.piles[phase]};
  reading.resident = judged.height;
  reading.fault = judged.fault;
  return reading;
}

// Of a run where nothing scores, or generates, there is no such phase.
bool occurs(const RootReading& reading, Phase phase) {
  return (phase != Phase::kScoring && phase != Phase::kGeneration) ||
         reading.phases[static_cast<std::size_t>(phase)].peak != kNoPeak;
}

Phase highest_phase(const RootReading& reading) {
  std::size_t highest = 0;
  for (std::size_t phase = 1; phase < kPhaseCount; ++phase)
    if (reading.phases[phase].peak > reading.phases[highest].peak) highest = phase;
  return static_cast<Phase>(highest);
}

PhasePrediction phase_of(const RootReading& reading, Phase phase, Bytes reserved, Bytes runtime) {
  PhasePrediction result;
  result.phase = phase;
  result.allocated = Bytes(reading.phases[static_cast<std::size_t>(phase)].peak);
  result.piles = reading.phases[static_cast<std::size_t>(phase)].piles;
  result.reserved = reserved;
  result.slack = reserved - result.allocated;
  result.runtime = runtime;
  return result;
}

FirstStep first_step_of(const RootReading& reading, const StageReserve& reserve, Bytes runtime) {
  FirstStep step;
  for (const Phase phase : {Phase::kGeneration, Phase::kForward, Phase::kScoring, Phase::kBackward,
                            Phase::kOptimizer}) {
    if (!occurs(reading, phase)) continue;
    step.reserved = reserve.first[static_cast<std::size_t>(phase)];
    step.phases.push_back(phase_of(reading, phase, step.reserved, runtime));
    const Bytes peak = step.phases.back().allocated;
    if (peak <= step.allocated) continue;
    step.allocated = peak;
    step.phase = phase;
  }
  step.device = step.reserved + runtime;
  return step;
}

// What is left to the allocator of a device on which so much stands outside of it.
Bytes room_beside(Bytes outside, Bytes usable) { return usable - std::min(outside, usable); }

void warn_of_retries(const StageReserve& reserve, const RankPrediction& rank,
                     Prediction& prediction) {
  if (reserve.retries == 0) return;
  prediction.warnings.push_back(
      fmt::format("rank {}: the allocator would reserve {}; on this device it gives cached memory "
                  "back and asks "
                  "again, which stops the device each time (num_alloc_retries)",
                  rank.rank, print(reserve.with_room)));
}

// Which stages are played through the allocator: all, those that may be the fullest, none.
enum class ReserveBy : std::uint8_t { kSimulation, kSimulationOfFullest, kEstimate };

struct BuiltStage {
  StageProgram program;
  RootReading reading;
};

// What the allocator may reserve for a stage so that the upper end of its band is within the device.
Bytes most_that_fits(const StageNeed& need, const ErrorBand& observed, const RuntimeBytes& runtime,
                     Bytes usable) {
  return usable - observed.needed({runtime.low, runtime.high}, need.piles).high;
}

// While an engine that sleeps in between generates, the trainer holds what stands between two steps: it has given its cached
// memory back (trl generation/vllm_generation.py, generate).
void wake_generator(const RuntimeBytes& generator, const RuntimeBytes& runtime,
                    RankPrediction& rank) {
  for (PhasePrediction& phase : rank.phases) {
    if (phase.phase != Phase::kGeneration) continue;
    phase.reserved = phase.allocated;
    phase.slack = Bytes{};
    phase.runtime = runtime.expected + generator.expected;
    const Bytes device = phase.reserved + phase.runtime;
    if (device <= rank.device) return;
    rank.phase = Phase::kGeneration;
    rank.allocated = phase.allocated;
    rank.reserved = phase.reserved;
    rank.device = device;
  }
}

struct BuiltStages {
  std::vector<BuiltStage> stages;
  std::vector<StageNeed> needs;
  bool is_over = false;  // one may not fit: what follows was not played
};

// The stages, and what the allocator has to reserve for each. `fitting`: what does not fit in so much for sure is not asked
// how much it needs.
template <class Read>
BuiltStages built_stages(const Job& job, StagePrograms<Checked>& stages, Read read, ReserveBy by,
                         const AllocatorRoom& room, const RuntimeBytes& runtime,
                         const ErrorBand& observed, std::optional<Bytes> fitting) {
  BuiltStages all;
  std::vector<BuiltStage>& built = all.stages;
  std::vector<StageNeed>& needs = all.needs;
  const auto play = [&](std::size_t stage) {
    const VariedLengths lengths(job, static_cast<std::int64_t>(stage), stages.program());
    std::optional<Bytes> enough;
    if (fitting) enough = most_that_fits(needs[stage], observed, runtime, *fitting);
    return simulated_reserve(stages, built[stage].program, job.allocator, room,
                             launch_queue(job, stages.book().launches), &lengths, enough);
  };
  for (std::int64_t stage = 0; stage < job.parallel.pipeline; ++stage) {
    const StageProgram program = stages.build(stage);
    built.push_back({program, read(stages.program(), program.root)});
    const RootReading& reading = built.back().reading;
    StageNeed& need = needs.emplace_back();
    need.allocated = Bytes(std::max(stages.program().span(program.root).highest(),
                                    stages.program().span(program.first_step).highest()));
    need.piles = reading.phases[static_cast<std::size_t>(highest_phase(reading))].piles;
    need.most = most_reserved(stages.program(), program);
    const Stage<Checked> ends = stages.stage_of(stage);
    need.has_end = ends.embedding || ends.head;
    need.reserve = by == ReserveBy::kSimulation
                       ? play(built.size() - 1)
                       : estimated_reserve(stages.program(), program, job.graphs.of);
  }
  if (by == ReserveBy::kSimulationOfFullest)
    all.is_over = !play_fullest(needs, observed, runtime, room, play);
  return all;
}

// `certain_high`: the upper end of the band is no higher, whatever the allocator makes of these requests. `only_if_it_fits`:
// what does not fit for sure has no more than that for an answer.
template <class Read>
Prediction predict_with(const Job& job, Read read, ReserveBy by, Bytes* certain_high = nullptr,
                        bool only_if_it_fits = false) {
  // The pools of graphs are estimated.
  if (job.graphs.of != CudaGraphs::kNone) by = ReserveBy::kEstimate;
  const bool simulates = by != ReserveBy::kEstimate;
  StagePrograms<Checked> stages(job, simulates ? SlotDetail::kTensors : SlotDetail::kSums);
  Prediction prediction;
  prediction.parameters = count_parameters(*job.model);
  prediction.trainable = prediction.parameters.trainable;
  prediction.capacity = job.cluster.device->capacity;
  prediction.usable = prediction.capacity;
  prediction.weights_alone =
      bytes_of(Elements(Checked(prediction.parameters.total)), job.training.precision.compute);
  prediction.assumptions = job.assumptions;
  for (const Diagnostic& warning : job.warnings)
    prediction.warnings.push_back(warning.more > 0 ? "and " + std::to_string(warning.more) + " more"
                                                   : warning.message);

  const ErrorBand observed(job);
  const std::int64_t replicas = job.cluster.devices / job.parallel.pipeline;
  const RuntimeBytes runtime = runtime_bytes(job);
  const AllocatorRoom room{room_beside(runtime.low, prediction.usable),
                           room_beside(runtime.expected, prediction.usable),
                           room_beside(runtime.high, prediction.usable)};
  PeakPrediction& peak = prediction.peak;
  bool unsimulated = false;
  std::vector<Bytes> on_host;  // by stage
  const BuiltStages all =
      built_stages(job, stages, read, by, room, runtime, observed,
                   only_if_it_fits ? std::optional(prediction.usable) : std::nullopt);
  if (all.is_over) {
    prediction.verdict = Verdict::kTight;
    return prediction;
  }
  for (std::int64_t stage = 0; stage < job.parallel.pipeline; ++stage) {
    const auto& [built, reading] = all.stages[static_cast<std::size_t>(stage)];
    if (!reading.fault.empty())
      prediction.warnings.push_back("the judge found a fault: " + reading.fault);
    RankPrediction rank;
    rank.rank = stage * replicas;
    rank.pipeline = stage;
    rank.replicas = replicas;
    rank.resident = Bytes(reading.resident);
    rank.phase = highest_phase(reading);
    rank.allocated = Bytes(reading.phases[static_cast<std::size_t>(rank.phase)].peak);
    const StageNeed& need = all.needs[static_cast<std::size_t>(stage)];
    const StageReserve& reserve = need.reserve;
    rank.reserved = std::max(reserve.later, rank.allocated);
    rank.device = rank.reserved + runtime.expected;
    const HostMemory host = stages.host(stage);
    on_host.push_back(host.on_host());
    if (host.on_host() + host.in(HostPlace::kNvme) > prediction.host + prediction.nvme) {
      prediction.host = host.on_host();
      prediction.pinned = host.in(HostPlace::kPinned);
      prediction.nvme = host.in(HostPlace::kNvme);
      prediction.holdings = host.holdings();
    }
    // It fits when every rank fits.
    // What a device that is behind withholds comes back before the allocator fails, but not before others do: a
    // communicator or a workspace made late asks the device, which has what the allocator left.
    const Band ends{reserve.least + runtime.low,
                    std::max(reserve.most, rank.reserved) + runtime.high};
    const Band needed = observed.needed(ends, need.piles);
    // One that was not played cannot raise the ends: only its estimate, which is wider, could.
    rank.estimated = by == ReserveBy::kSimulationOfFullest && !reserve.simulated && !reserve.is_cut;
    if (!rank.estimated) {
      peak.low = std::max(peak.low, needed.low);
      peak.high = std::max(peak.high, needed.high);
    }
    if (certain_high != nullptr) {
      const Band widest{reserve.least + runtime.low, need.most + runtime.high};
      *certain_high = std::max(*certain_high, observed.needed(widest, need.piles).high);
    }
    for (std::size_t index = 0; index < kPhaseCount; ++index) {
      const auto phase = static_cast<Phase>(index);
      if (!occurs(reading, phase)) continue;
      // The allocator gives nothing back between phases: in the steady state what one phase reserved stays reserved.
      const Bytes reserved = phase == Phase::kLoad ? reserve.first[index] : rank.reserved;
      rank.phases.push_back(phase_of(reading, phase, reserved, runtime.expected));
    }
    if (job.generation.sleeps) {
      const RuntimeBytes generator = generator_bytes(job);
      const Bytes held(reading.phases[static_cast<std::size_t>(Phase::kGeneration)].peak);
      const Band awake = observed.needed(
          {held + runtime.low + generator.low, held + runtime.high + generator.high}, need.piles);
      peak.low = std::max(peak.low, awake.low);
      peak.high = std::max(peak.high, awake.high);
      if (certain_high != nullptr) *certain_high = std::max(*certain_high, awake.high);
      wake_generator(generator, runtime, rank);
    }
    rank.first_step =
        first_step_of(read(stages.program(), built.first_step), reserve, runtime.expected);
    warn_of_retries(reserve, rank, prediction);
    unsimulated = unsimulated || reserve.is_cut;
    prediction.ranks.push_back(std::move(rank));
  }

  prediction.host_of_node = host_of_fullest_machine(job, on_host);
  prediction.host_verdict = host_verdict(host_room(job), prediction.host_of_node);
  if (std::string lacks = host_sentence(job, prediction.host_of_node); !lacks.empty())
    prediction.warnings.push_back(std::move(lacks));
  std::size_t worst = 0;
  for (std::size_t i = 1; i < prediction.ranks.size(); ++i) {
    const RankPrediction &one = prediction.ranks[i], &other = prediction.ranks[worst];
    if (one.device > other.device || (one.device == other.device && other.estimated)) worst = i;
  }
  const RankPrediction& rank = prediction.ranks[worst];
  peak.rank = rank.rank;
  peak.pipeline = rank.pipeline;
  peak.phase = rank.phase;
  peak.allocated = rank.allocated;
  peak.reserved = rank.reserved;
  peak.device = rank.device;
  if (job.experts.imbalance > 1) {  // at least what balanced routing needs
    Job balanced = job;
    balanced.experts.imbalance = 1;
    peak.low = std::min(peak.low, predict_with(balanced, read, by).peak.low);
  }
  prediction.verdict = std::max(verdict_of(peak, prediction.usable), prediction.host_verdict);
  if (unsimulated)
    prediction.assumptions.push_back(
        {"reserved", "estimated", "too many tensors to play each through the allocator"});
  return prediction;
}

}  // namespace

Verdict verdict_of(const PeakPrediction& peak, Bytes usable) {
  if (peak.low > usable) return Verdict::kDoesNotFit;
  return peak.high > usable ? Verdict::kTight : Verdict::kFits;
}

std::string_view name_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::kFits:
      return "fits";
    case Verdict::kTight:
      return "tight";
    case Verdict::kDoesNotFit:
      return "does_not_fit";
  }
  return "";
}

Prediction predict(const Job& job) { return predict_with(job, read_spans, ReserveBy::kSimulation); }

Prediction predict_fullest(const Job& job) {
  return predict_with(job, read_spans, ReserveBy::kSimulationOfFullest);
}

std::optional<Prediction> predict_if_it_fits(const Job& job) {
  Prediction prediction =
      predict_with(job, read_spans, ReserveBy::kSimulationOfFullest, nullptr, true);
  if (prediction.verdict != Verdict::kFits) return std::nullopt;
  return prediction;
}

Prediction estimate(const Job& job) { return predict_with(job, read_spans, ReserveBy::kEstimate); }

namespace {

// `only_whether_it_fits`: of what may not fit on the device no more is asked.
Prediction decided_by(const Job& job, bool only_whether_it_fits) {
  // Pools of graphs are estimated by predict(), too.
  if (job.graphs.of != CudaGraphs::kNone) return predict(job);
  Bytes certain_high{};
  Prediction estimated = predict_with(job, read_spans, ReserveBy::kEstimate, &certain_high);
  // What is allocated in whole segments is the least that the simulation answers; and no verdict is above this one.
  const bool is_certain =
      estimated.verdict == Verdict::kDoesNotFit || certain_high <= estimated.usable;
  if (!is_certain && !only_whether_it_fits) return predict_fullest(job);
  if (!is_certain) {
    Prediction played =
        predict_with(job, read_spans, ReserveBy::kSimulationOfFullest, nullptr, true);
    if (!played.ranks.empty()) return played;
    estimated.verdict = Verdict::kTight;
    estimated.peak.high = std::max(estimated.peak.high, estimated.usable + Bytes(1));
    estimated.estimated = true;
    return estimated;
  }
  if (estimated.verdict != Verdict::kDoesNotFit) estimated.verdict = estimated.host_verdict;
  estimated.estimated = true;
  return estimated;
}

}  // namespace

Prediction decided(const Job& job) { return decided_by(job, false); }

Prediction decided_whether_it_fits(const Job& job) { return decided_by(job, true); }

Prediction predict_by_replay(const Job& job) {
  return predict_with(job, read_replay, ReserveBy::kSimulation);
}

Prediction estimate_by_replay(const Job& job) {
  return predict_with(job, read_replay, ReserveBy::kEstimate);
}

}  // namespace steelyard
