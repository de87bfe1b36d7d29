// The part of a run in which each event of a history lies, by its frames and by the optimizer steps that the file notes.
//
//   modeling_llama.py forward    kForward
//   (no frames, between START and END of Optimizer.step)    kOptimizerStep
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "evidence/memory_history.h"
#include "evidence/stack_origin.h"

namespace steelyard {

// Where in a run an event lies, coarser than a stack's role.
enum class RunPart : std::uint8_t {
  kUnknown,
  kLoading,
  kForward,
  kLossPart,
  kBackward,
  kOptimizerStep,
  kSaving,
  kEvaluating
};
std::string_view name_of(RunPart part);

// "Optimizer.step#AdamW.step"
bool is_optimizer_step(const RecordedAnnotation& note);

// The part of the run that each event lies in, for questions of other moments.
std::vector<RunPart> parts_of_events(const MemoryHistory& history, std::size_t device,
                                     const std::vector<StackOrigin>& origins);

}  // namespace steelyard
