#include "judge.h"

#include <fmt/format.h>

#include <string_view>

#include "engine/stage_program.h"
#include "ledger/replay.h"
#include "predict/explain.h"
#include "predict/prediction.h"

namespace steelyard {
namespace {

std::int64_t number(Bytes bytes) { return bytes.value().value(); }

std::string compare(const Prediction& spans, const Prediction& replayed) {
  if (spans.ranks.size() != replayed.ranks.size()) return "another number of ranks";
  for (std::size_t i = 0; i < spans.ranks.size(); ++i) {
    const RankPrediction& a = spans.ranks[i];
    const RankPrediction& b = replayed.ranks[i];
    if (a.resident != b.resident)
      return fmt::format("stage {}: resident {} by spans, {} by replay", i, number(a.resident),
                         number(b.resident));
    if (a.phases.size() != b.phases.size())
      return fmt::format("stage {}: another number of phases", i);
    for (std::size_t phase = 0; phase < a.phases.size(); ++phase) {
      const PhasePrediction& x = a.phases[phase];
      const PhasePrediction& y = b.phases[phase];
      if (x.allocated != y.allocated)
        return fmt::format("stage {}, {}: {} by spans, {} by replay", i, name_of(x.phase),
                           number(x.allocated), number(y.allocated));
      if (!(x.piles == y.piles))
        return fmt::format("stage {}, {}: piles differ at the same height", i, name_of(x.phase));
      if (x.piles.total() != x.allocated)
        return fmt::format("stage {}, {}: piles sum to {}, allocated is {}", i, name_of(x.phase),
                           number(x.piles.total()), number(x.allocated));
      for (const Bytes pile : x.piles.bytes)
        if (pile < Bytes{})
          return fmt::format("stage {}, {}: a pile of {}", i, name_of(x.phase), number(pile));
      if (x.reserved < x.allocated)
        return fmt::format("stage {}, {}: less reserved than allocated", i, name_of(x.phase));
    }
  }
  if (spans.peak.allocated != replayed.peak.allocated || spans.verdict != replayed.verdict ||
      spans.host != replayed.host)
    return "another peak, verdict or host";
  return {};
}

std::string who(const Program& program, std::size_t slot) {
  const Slot& what = program.slot_at(static_cast<SlotId>(slot));
  return fmt::format("{} / {} ({})", what.owner, what.name, what.rule);
}

std::string judge_moments(const Program& program, NodeId root, const Replay& replayed) {
  for (std::size_t phase = 0; phase < kPhaseCount; ++phase) {
    const PeakMoment moment = find_peak(program, root, static_cast<Phase>(phase));
    if (moment.height != replayed.peak[phase]) return "find_peak has another height";
    if (moment.height == kNoPeak) continue;
    if (number(moment.piles.total()) != moment.height) return "what is alive at the peak is not it";
    if (!(moment.piles == replayed.piles[phase])) return "find_peak has other piles";
    for (std::size_t slot = 0; slot < moment.alive.size(); ++slot)
      if (moment.alive[slot] < 0)
        return who(program, slot) + " is there a negative number of times";
  }
  return {};
}

std::string judge_stage(StagePrograms<Checked>& stages, std::int64_t stage) {
  const StageProgram built = stages.build(stage);
  const Program& program = stages.program();
  const Replay first = replay(program, built.root);
  if (!first.fault.empty()) return first.fault;
  if (std::string wrong = judge_moments(program, built.root, first); !wrong.empty()) return wrong;

  const Replay second = replay(program, built.later_step, first.alive);
  if (!second.fault.empty()) return "in the second step, " + second.fault;
  for (std::size_t slot = 0; slot < second.alive.size(); ++slot)
    if (second.alive[slot] != first.alive[slot])
      return fmt::format("a step leaves {} of {}", second.alive[slot] - first.alive[slot],
                         who(program, slot));
  for (const Phase phase : {Phase::kForward, Phase::kBackward, Phase::kOptimizer})
    if (second.peak[static_cast<std::size_t>(phase)] > first.peak[static_cast<std::size_t>(phase)])
      return fmt::format("the second step has a higher {}", name_of(phase));
  if (second.height != first.height) return "the second step ends at another height";
  return {};
}

}  // namespace

std::string judge(const Job& job) {
  const Prediction replayed = estimate_by_replay(job);
  for (const std::string& warning : replayed.warnings)
    if (warning.find("judge") != std::string::npos) return warning;
  if (std::string wrong = compare(estimate(job), replayed); !wrong.empty()) return wrong;
  StagePrograms<Checked> stages(job);
  for (std::int64_t stage = 0; stage < job.parallel.pipeline; ++stage)
    if (const std::string wrong = judge_stage(stages, stage); !wrong.empty())
      return fmt::format("stage {}: {}", stage, wrong);
  return {};
}

std::string judge_formulas(const Job& job) {
  StagePrograms<Checked> plain_stages(job);
  StagePrograms<Traced> traced_stages(job);
  for (std::int64_t stage = 0; stage < job.parallel.pipeline; ++stage) {
    const StageProgram a = plain_stages.build(stage);
    const StageProgram b = traced_stages.build(stage);
    if (plain_stages.program().span(a.root).peak != traced_stages.program().span(b.root).peak)
      return "traced sizes have another peak";
  }
  const Program& program = plain_stages.program();
  if (program.slot_count() != traced_stages.program().slot_count())
    return "traced sizes have other slots";
  for (std::size_t i = 0; i < program.slot_count(); ++i) {
    const Slot& slot = program.slot_at(static_cast<SlotId>(i));
    const Slot& traced = traced_stages.program().slot_at(static_cast<SlotId>(i));
    if (slot.bytes != traced.bytes || std::string_view(slot.name) != traced.name)
      return who(program, i) + " is another slot when traced";
    if (find_rule(slot.rule) == nullptr) return who(program, i) + " has no such rule";
    const Formula& formula = traced_stages.book().formulas[i];
    const Bytes exact = bytes_of(Elements(formula.elements.checked()), formula.type);
    if (exact > slot.bytes) return who(program, i) + " is smaller than its formula";
  }
  return {};
}

}  // namespace steelyard
