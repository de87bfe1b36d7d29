// Where in a training program a stack of a snapshot stands, told by its frames.
//
//   torch/optim/adam.py:_init_group          optimizer state
//   torch/nn/functional.py:cross_entropy     loss
//   (C frames only)                          autograd's backward thread, or no Python at all
//   modeling_llama.py:268 forward            forward, of "modeling_llama.py:268"
//
// The table of files and functions is evidence/frame_signs.cc; what several frames say is decided by rule: what encloses the
// rest (evaluation, saving, an optimizer step) first, then the innermost frame that is known. Rules have numbers, A1 to A9
// (diagnose/attribution.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "evidence/memory_history.h"

namespace steelyard {

enum class StackRole : std::uint8_t {
  kNoFrames,  // nothing recorded
  kThread,    // C frames only: a thread of autograd
  kForward,
  kLoss,
  kBackward,        // Python inside backward: recomputation, custom functions, hooks
  kOptimizerState,  // the function that makes the moments
  kOptimizer,       // the rest of an optimizer's step
  kMaster,          // copies of the weights that an engine keeps
  kGradientBuffer,  // made once for all gradients
  kLoad,
  kSave,
  kEvaluation,
  kGather,  // sharded parameters and buckets on their way
  kOther
};

struct StackOrigin {
  StackRole role = StackRole::kNoFrames;
  bool dequantises = false;  // copies of quantised weights
  bool attention = false;
  bool softmax = false;
  bool linear = false;
  bool experts = false;
  bool norm = false;
  bool generated = false;   // by torch.compile: the module is lost
  bool replicates = false;  // DataParallel's copies of parameters
  bool gathers = false;     // the owner itself gathers parameters or makes buckets
  bool reduces = false;     // gradients to their shards
  bool cache = false;       // keys and values of generation
  bool recomputes = false;  // activation checkpointing is on
  bool adapter = false;
  bool eager = false;   // attention whose scores are tensors
  bool fused = false;   // attention in one kernel
  bool bucket = false;  // DDP's construction
  std::string site;     // the owner's own line: "model.py:88 forward"
};

// Of a Python program; C and C++ frames have names of their own.
bool is_python_frame(const RecordedFrame& frame);

// One for each stack of the history.
std::vector<StackOrigin> stack_origins(const MemoryHistory& history);

}  // namespace steelyard
