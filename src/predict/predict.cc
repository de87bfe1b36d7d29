#include <algorithm>
#include <cmath>

#include "engine/stage_program.h"
#include "ledger/replay.h"
#include "predict/prediction.h"
#include "predict/runtime.h"

namespace steelyard {

namespace {

// Large segments come in multiples of 2 MiB (CUDACachingAllocator.cpp, kRoundLarge).
Bytes segments(Bytes bytes) { return Bytes(round_up(bytes.value(), std::int64_t{2} << 20)); }

Bytes share(Bytes bytes, double part) {
  return Bytes(
      static_cast<std::int64_t>(std::llround(static_cast<double>(bytes.value().value()) * part)));
}

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

struct Band {
  Bytes low, high;
};

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

// `held`: what came before the first micro-batch and stays.
FirstStep first_step_of(const RootReading& reading, Bytes held, Bytes runtime) {
  FirstStep step;
  for (const Phase phase : {Phase::kForward, Phase::kBackward, Phase::kOptimizer}) {
    const Bytes peak(reading.phases[static_cast<std::size_t>(phase)].peak);
    // What the allocator has reserved it keeps for the phases that follow.
    step.reserved =
        std::max(step.reserved,
                 segments(peak + share(peak - std::min(peak, held), slack_allowance().expected)));
    step.phases.push_back(phase_of(reading, phase, step.reserved, runtime));
    if (peak <= step.allocated) continue;
    step.allocated = peak;
    step.phase = phase;
  }
  step.device = step.reserved + runtime;
  return step;
}

template <class Read>
Prediction predict_with(const Job& job, Read read) {
  StagePrograms<Checked> stages(job);
  Prediction prediction;
  prediction.parameters = count_parameters(*job.model);
  prediction.trainable = prediction.parameters.trainable;
  prediction.capacity = job.cluster.device->capacity;
  prediction.usable = prediction.capacity;
  prediction.weights_alone =
      bytes_of(Elements(Checked(prediction.parameters.total)), job.training.precision.compute);
  prediction.assumptions = job.assumptions;
  for (const Diagnostic& warning : job.warnings) prediction.warnings.push_back(warning.message);

  const SlackAllowance slack = slack_allowance();
  const std::int64_t replicas = job.cluster.devices / job.parallel.pipeline;
  const RuntimeBytes runtime = runtime_bytes(job);
  std::vector<Band> bands;
  for (std::int64_t stage = 0; stage < job.parallel.pipeline; ++stage) {
    const StageProgram built = stages.build(stage);
    const RootReading reading = read(stages.program(), built.root);
    if (!reading.fault.empty())
      prediction.warnings.push_back("the judge found a fault: " + reading.fault);
    RankPrediction rank;
    rank.rank = stage * replicas;
    rank.pipeline = stage;
    rank.replicas = replicas;
    rank.resident = Bytes(reading.resident);
    rank.phase = highest_phase(reading);
    rank.allocated = Bytes(reading.phases[static_cast<std::size_t>(rank.phase)].peak);
    const Bytes moving = rank.allocated - std::min(rank.allocated, rank.resident);
    // Forward and backward leave many smaller blocks behind; a flat buffer of the step does not fit into any of them.
    const Bytes before_step(
        std::max(reading.phases[static_cast<std::size_t>(Phase::kForward)].peak,
                 reading.phases[static_cast<std::size_t>(Phase::kBackward)].peak));
    const Bytes stacked = before_step + built.beyond_cached_blocks;
    rank.reserved =
        std::max(segments(rank.allocated + share(moving, slack.expected)), segments(stacked));
    rank.device = rank.reserved + runtime.expected;
    prediction.host = std::max(prediction.host, stages.engine().host(stages.stage_of(stage)));
    bands.push_back(
        {segments(rank.allocated + share(moving, slack.low)) + runtime.low,
         std::max(segments(rank.allocated + share(moving, slack.high)), segments(stacked)) +
             runtime.high});
    for (std::size_t index = 0; index < kPhaseCount; ++index) {
      const auto phase = static_cast<Phase>(index);
      // The allocator gives nothing back between phases: in the steady state what one phase reserved stays reserved.
      const Bytes reserved =
          phase == Phase::kLoad ? segments(Bytes(reading.phases[index].peak)) : rank.reserved;
      rank.phases.push_back(phase_of(reading, phase, reserved, runtime.expected));
    }
    const Bytes held(stages.program().span(built.before_first_step).change);
    rank.first_step =
        first_step_of(read(stages.program(), built.first_step), held, runtime.expected);
    prediction.ranks.push_back(std::move(rank));
  }

  std::size_t worst = 0;
  for (std::size_t i = 1; i < prediction.ranks.size(); ++i)
    if (prediction.ranks[i].device > prediction.ranks[worst].device) worst = i;
  const RankPrediction& rank = prediction.ranks[worst];
  prediction.peak = {rank.rank,     rank.pipeline, rank.phase,       rank.allocated,
                     rank.reserved, rank.device,   bands[worst].low, bands[worst].high};
  for (const Band& band : bands) prediction.peak.high = std::max(prediction.peak.high, band.high);
  if (prediction.peak.low > prediction.usable)
    prediction.verdict = Verdict::kDoesNotFit;
  else
    prediction.verdict =
        prediction.peak.high > prediction.usable ? Verdict::kTight : Verdict::kFits;
  return prediction;
}

}  // namespace

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

Prediction predict(const Job& job) { return predict_with(job, read_spans); }

Prediction predict_by_replay(const Job& job) { return predict_with(job, read_replay); }

}  // namespace steelyard
