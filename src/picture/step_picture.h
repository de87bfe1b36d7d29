// One step as a picture: what a rank holds over time, and what every stage of a pipeline does meanwhile.
//
//   usable ----------------------------------
//            ____/\                                     stage 0  F0 F1 F2 .. B0 B1 B2
//      _____/      \____                                stage 1     F0 F1 B0 F2 B1 ..
//     load | forward | backward | optimizer
//
// Both are lean: relative steps, equal values merged, areas painted back to front without a lower edge.
#pragma once

#include <string>

#include "picture/svg.h"
#include "predict/prediction.h"
#include "predict/step_trace.h"

namespace steelyard {

// Of one rank of the trace, which stands for all of its stage. Slack and runtime of the prediction lie beneath the piles.
std::string timeline_svg(const StepTrace& trace, std::int64_t stage, const Prediction& prediction,
                         const Frame& frame);
// A row for each stage: forward, backward, weight gradients, optimizer; blank is waiting. Exchanges are thin bars beneath.
std::string schedule_svg(const StepTrace& trace, const Frame& frame);

}  // namespace steelyard
