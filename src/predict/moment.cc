// The moment of a peak in words: which layer of which micro-batch, and everything alive then.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "engine/stage_program.h"
#include "predict/entry_name.h"
#include "predict/prediction.h"

namespace steelyard {

namespace {

std::string where_of(const PeakMoment& peak, Phase phase, const Job& job) {
  const PeakMoment::Step* layer = nullptr;
  const PeakMoment::Step* batch = nullptr;
  std::string_view part;
  for (const PeakMoment::Step& step : peak.path) {
    const std::string_view label = step.label;
    if (label == "layer") layer = &step;
    if (label == "forward" || label == "backward") batch = &step;
    if (label == "loss" || label == "embedding" || label == "optimizer" || label == "checkpoint" ||
        label == "load" || label == "receive" || label == "send" || label == "reduce")
      part = label;
  }
  std::string where(name_of(phase));
  if (layer) {
    const std::int64_t number =
        phase == Phase::kBackward ? layer->times - layer->index : layer->index + 1;
    where += fmt::format(", layer {} of {}", number, layer->times);
  } else if (part == "loss" || part == "embedding") {
    where += fmt::format(", the {}", part);
  } else if (part == "reduce") {
    where += ", reducing gradients";
  }
  if (batch && job.training.gradient_accumulation > 1)
    where +=
        fmt::format(", micro-batch {} of {}", batch->index + 1, job.training.gradient_accumulation);
  return where;
}

}  // namespace

Moment phase_moment(const Job& job, std::size_t rank_index, Phase phase) {
  StagePrograms<Checked> stages(job);
  const StageProgram built = stages.build(static_cast<std::int64_t>(rank_index));
  const Program& program = stages.program();
  const PeakMoment peak = find_peak(program, built.root, phase);
  Moment moment;
  moment.phase = phase;
  if (peak.height == kNoPeak) return moment;
  moment.where = where_of(peak, phase, job);
  if (peak.allocating >= 0) {
    const Slot& slot = program.slot_at(peak.allocating);
    moment.during = fmt::format("{} ({})", entry_name(slot), slot.owner);
  }
  for (std::size_t index = 0; index < peak.alive.size(); ++index) {
    if (peak.alive[index] == 0) continue;
    const Slot& slot = program.slot_at(static_cast<SlotId>(index));
    moment.alive.push_back({slot.pile, slot.owner, entry_name(slot), slot.rule, peak.alive[index],
                            slot.bytes, slot.bytes * Checked(peak.alive[index])});
  }
  std::stable_sort(moment.alive.begin(), moment.alive.end(),
                   [](const Holding& a, const Holding& b) { return a.total > b.total; });
  return moment;
}

Moment peak_moment(const Job& job, std::size_t rank_index) {
  const Prediction prediction = estimate(job);
  return phase_moment(job, rank_index, prediction.ranks.at(rank_index).phase);
}

}  // namespace steelyard
