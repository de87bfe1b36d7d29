#include "diagnose/attribution_rules.h"

#include <algorithm>
#include <array>

namespace steelyard {
namespace {

constexpr std::array<AttributionRule, 9> kAttributionRules = {
    {{1, "A1", "the file's own category",
      "A block whose file names its pile belongs there; nothing else is asked.",
      "categories, as snapshots that Steelyard writes have them"},
     {2, "A2", "frames that say whose it is",
      "Lines of the optimizer that make its state, of a loader, of an engine's buffers and of a "
      "dequantisation name the owner. A gather or a gradient's buffer whose size the prediction "
      "has in one pile alone goes there. cuBLAS's workspace, told by its size, is temporary.",
      "stacks with Python frames"},
     {3, "A3", "the prediction's own tensors",
      "A size that the prediction of --against has in one pile alone belongs to that pile, where "
      "the frames do not decide.",
      "--against"},
     {4, "A4", "autograd's thread",
      "Backward's own thread has no Python frames where other allocations have them. A block of "
      "that thread is a gradient if it has the size of a parameter and outlives backward, else "
      "temporary.",
      "stacks with Python frames"},
     {5, "A5", "lifetime within the step",
      "What forward or the loss makes is an activation, but for what is seen, or follows from the "
      "layer before, to be freed ahead of backward. What backward computes again is an activation "
      "where an operator keeps it, else temporary. A line of the script's own, beside the model, "
      "makes temporary blocks.",
      "stacks with Python frames, and the events of the step"},
     {6, "A6", "equal sets that are older than the history",
      "Blocks that were there before the first event have no frames. They are told by the "
      "prediction's sizes; without it, whole sets of the same sizes are parameters, gradients and "
      "moments, and one set alone is parameters.",
      "the blocks that were alive when the recording began"},
     {7, "A7", "an optimizer of the user's own",
      "A line within the optimizer's step that holds four blocks or more and never freed one keeps "
      "moments.",
      "stacks with Python frames"},
     {8, "A8", "no frames at all",
      "What is born between the annotations of an optimizer's step and kept is its moments, what "
      "is freed again is temporary, and what is kept from before the first step is parameters.",
      "the profiler's annotations beside the events"},
     {9, "A9", "unaccounted",
      "What no rule decides is printed as unaccounted, with its size. It is never distributed.",
      "nothing"}}};

}  // namespace

std::span<const AttributionRule> attribution_rules() { return kAttributionRules; }

const AttributionRule* find_attribution_rule(std::string_view name) {
  const auto found = std::find_if(kAttributionRules.begin(), kAttributionRules.end(),
                                  [&](const AttributionRule& rule) { return rule.name == name; });
  return found == kAttributionRules.end() ? nullptr : &*found;
}

}  // namespace steelyard
