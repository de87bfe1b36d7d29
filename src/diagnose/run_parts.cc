#include "diagnose/run_parts.h"

#include <algorithm>
#include <array>
#include <string>

namespace steelyard {
namespace {

RunPart part_of(StackRole role) {
  switch (role) {
    case StackRole::kForward:
      return RunPart::kForward;
    case StackRole::kLoss:
      return RunPart::kLossPart;
    case StackRole::kBackward:
    case StackRole::kThread:
      return RunPart::kBackward;
    case StackRole::kOptimizer:
    case StackRole::kOptimizerState:
      return RunPart::kOptimizerStep;
    case StackRole::kLoad:
    case StackRole::kMaster:
    case StackRole::kGradientBuffer:
      return RunPart::kLoading;
    case StackRole::kSave:
      return RunPart::kSaving;
    case StackRole::kEvaluation:
      return RunPart::kEvaluating;
    default:
      return RunPart::kUnknown;
  }
}

}  // namespace

bool is_optimizer_step(const RecordedAnnotation& note) {
  return note.name.starts_with("Optimizer.step");
}

std::string_view name_of(RunPart part) {
  constexpr std::array<std::string_view, 8> kNames = {
      "", "load", "forward", "loss", "backward", "optimizer", "checkpoint", "evaluation"};
  return kNames[static_cast<std::size_t>(part)];
}

std::vector<RunPart> parts_of_events(const MemoryHistory& history, std::size_t device,
                                     const std::vector<StackOrigin>& origins) {
  const std::vector<RecordedEvent>& events = history.devices[device].events;
  const bool has_python =
      std::any_of(origins.begin(), origins.end(), [](const StackOrigin& origin) {
        return origin.role != StackRole::kNoFrames && origin.role != StackRole::kThread;
      });
  // START and END of steps that the file notes.
  std::vector<std::pair<std::int64_t, std::int64_t>> steps;
  for (const RecordedAnnotation& note : history.annotations) {
    if (!is_optimizer_step(note) || note.time <= 0) continue;
    if (note.starts)
      steps.emplace_back(note.time, INT64_MAX);
    else if (!steps.empty())
      steps.back().second = note.time;
  }
  std::vector<RunPart> parts(events.size(), RunPart::kUnknown);
  std::size_t step = 0;
  for (std::size_t index = 0; index < events.size(); ++index) {
    const RecordedEvent& event = events[index];
    StackRole role = origins[static_cast<std::size_t>(event.stack)].role;
    if (role == StackRole::kNoFrames && has_python &&
        (event.action == RecordedAction::kAlloc || event.action == RecordedAction::kOom))
      role = StackRole::kThread;
    parts[index] = role == StackRole::kNoFrames ? RunPart::kUnknown : part_of(role);
    if (role == StackRole::kNoFrames && event.time > 0) {
      while (step < steps.size() && steps[step].second < event.time) ++step;
      if (step < steps.size() && steps[step].first <= event.time)
        parts[index] = RunPart::kOptimizerStep;
    }
  }
  return parts;
}

}  // namespace steelyard
