#include "evidence/stack_origin.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <string_view>

#include "evidence/frame_signs.h"

namespace steelyard {
namespace {

bool ends_with_one_of(std::string_view text, std::initializer_list<std::string_view> ends) {
  return std::any_of(ends.begin(), ends.end(), [text](std::string_view end) {
    return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
  });
}

StackRole role_of(std::uint32_t all, std::uint32_t inner, std::uint32_t outermost) {
  if ((all & kPython) == 0) return StackRole::kThread;
  if ((all & kSignMakesState) != 0) return StackRole::kOptimizerState;
  // An evaluation that loads its model first.
  const bool loads = (all & kSignLoad) != 0 && (all & kSignForward) == 0;
  if (loads && (all & (kSignEvaluation | kSignSave)) == kSignEvaluation) return StackRole::kLoad;
  if ((all & kSignSave) != 0) return StackRole::kSave;
  if ((all & kSignEvaluation) != 0) return StackRole::kEvaluation;
  if ((all & kSignFlatten) != 0 && (inner & kSignMaster) != 0) return StackRole::kLoad;
  if ((inner & kSignMaster) != 0) return StackRole::kMaster;
  if ((inner & kSignGradBuffer) != 0) return StackRole::kGradientBuffer;
  if ((inner & kSignReplicate) != 0) return StackRole::kLoad;
  if ((all & kSignGather) != 0) return StackRole::kGather;
  if ((all & kSignStep) != 0) return StackRole::kOptimizer;
  const bool backward = (all & kSignBackward) != 0 || (outermost & kSignFunction) != 0;
  if (backward) return StackRole::kBackward;
  if ((inner & kSignLoad) != 0) return StackRole::kLoad;
  if ((inner & kSignLoss) != 0) return StackRole::kLoss;
  if (loads) return StackRole::kLoad;
  if ((all & (kSignForward | kSignGenerated | kSignDequantise)) != 0) return StackRole::kForward;
  return StackRole::kOther;
}

}  // namespace

bool is_python_frame(const RecordedFrame& frame) {
  if (frame.file.empty() || frame.file == "??" || frame.line == 0) return false;
  return !ends_with_one_of(frame.file,
                           {".c", ".cc", ".cpp", ".cu", ".h", ".hpp", ".cuh", ".so", ".o", ".S"}) &&
         frame.name.find("::") == std::string::npos;
}

std::vector<StackOrigin> stack_origins(const MemoryHistory& history) {
  std::vector<std::uint32_t> signs;
  signs.reserve(history.frames.size());
  for (const RecordedFrame& frame : history.frames) signs.push_back(signs_of(frame));
  std::vector<StackOrigin> origins(history.stacks());
  for (std::size_t id = 1; id < origins.size(); ++id) {
    StackOrigin& origin = origins[id];
    std::uint32_t all = 0;
    std::uint32_t inner = 0;  // up to the first frame that is the owner's own
    std::uint32_t outermost = 0;
    bool no_graph = false;  // the outermost forward runs under no_grad
    for (const std::int32_t number : history.stack(static_cast<std::int32_t>(id))) {
      const auto index = static_cast<std::size_t>(number);
      std::uint32_t said = signs[index];
      // Outside a closure stands the optimizer that calls it: the step itself is within.
      if ((all & kSignClosure) != 0) said &= ~(kSignStep | kSignNoGraph);
      if ((said & kSignForward) != 0) no_graph = false;
      if ((said & kSignNoGraph) != 0 && (all & kSignForward) != 0) no_graph = true;
      all |= said;
      if ((said & kPython) != 0) outermost = said;
      if (!origin.site.empty()) continue;
      inner |= said;
      if ((said & kPython) == 0 || (said & kSignWrapper) != 0) continue;
      const RecordedFrame& frame = history.frames[index];
      origin.site = fmt::format("{}:{} {}", file_of_path(frame.file), frame.line, frame.name);
    }
    if (no_graph && (all & kSignStep) == 0) all |= kSignEvaluation;
    origin.role = role_of(all, inner, outermost);
    origin.dequantises = (all & kSignDequantise) != 0;
    origin.softmax = (inner & kSignSoftmax) != 0;
    origin.linear = (inner & kSignLinear) != 0;
    origin.norm = (inner & kSignNorm) != 0;
    origin.attention = (all & kSignAttention) != 0;
    origin.experts = (all & kSignExperts) != 0;
    origin.generated = (all & kSignGenerated) != 0;
    origin.replicates = (inner & kSignReplicate) != 0;
    origin.gathers = (inner & kSignGather) != 0;
    origin.reduces = (all & kSignReduce) != 0;
    origin.cache = (all & kSignCache) != 0;
    origin.recomputes = (all & kSignRecompute) != 0;
    origin.adapter = (all & kSignAdapter) != 0;
    origin.eager = (all & kSignEager) != 0;
    origin.fused = (all & kSignFused) != 0;
    origin.bucket = (all & kSignBucket) != 0;
  }
  return origins;
}

}  // namespace steelyard
