// What one frame of a stack says by its file and function.
//
//   torch/optim/adam.py  _init_group           an optimizer's step, which makes its state
//   torch/utils/checkpoint.py  recompute_fn    backward, computed again
//
// The table holds facts of the frameworks' own files: PyTorch 2.0 to 2.11, transformers 4 and 5, DeepSpeed 0.14 to 0.18,
// Megatron-LM, bitsandbytes, PEFT, Apex. What several frames say together is evidence/stack_origin.h's.
#pragma once

#include <cstdint>
#include <string_view>

#include "evidence/memory_history.h"

namespace steelyard {

// What one frame can say.
enum FrameSign : std::uint32_t {
  kPython = 1U << 0U,
  kSignEvaluation = 1U << 1U,
  kSignSave = 1U << 2U,
  kSignStep = 1U << 3U,  // an optimizer's step
  kSignMakesState = 1U << 4U,
  kSignBackward = 1U << 5U,
  kSignFunction = 1U << 6U,  // autograd's Function.apply of backward: outermost in its thread
  kSignLoss = 1U << 7U,
  kSignLoad = 1U << 8U,
  kSignGather = 1U << 9U,
  kSignMaster = 1U << 10U,
  kSignGradBuffer = 1U << 11U,
  kSignDequantise = 1U << 12U,
  kSignAttention = 1U << 13U,
  kSignSoftmax = 1U << 14U,
  kSignLinear = 1U << 15U,
  kSignExperts = 1U << 16U,
  kSignNorm = 1U << 17U,
  kSignGenerated = 1U << 18U,
  kSignReplicate = 1U << 19U,
  kSignCache = 1U << 20U,
  kSignWrapper = 1U << 21U,  // of PyTorch or an engine: never the owner's own line
  kSignForward = 1U << 22U,
  kSignReduce = 1U << 23U,  // gradients on their way from ranks to shards
  kSignFlatten = 1U << 24U,
  kSignRecompute = 1U << 25U,  // activation checkpointing is on
  kSignAdapter = 1U << 26U,
  kSignEager = 1U << 27U,    // attention whose scores are tensors
  kSignFused = 1U << 28U,    // attention in one kernel
  kSignClosure = 1U << 29U,  // a step that an optimizer calls: what is outside it says nothing
  kSignNoGraph = 1U << 30U,  // a function under no_grad or inference_mode
  kSignBucket = 1U << 31U,   // DDP's construction: buckets of all gradients
};

// Bits of FrameSign.
std::uint32_t signs_of(const RecordedFrame& frame);

// The last part of a path.
std::string_view file_of_path(std::string_view path);

}  // namespace steelyard
