// What stands on a stage: chunks of layers, each with the nodes of its steps, and what a stage has once beside them.
//
//   groups   layers 0-3 of 12, every second one computed again:   2 x (variant 1 x 1, variant 0 x 1)
//   chunk    groups, ends, and forward, backward of the first micro-batch of a step and of later ones
//   parts    chunks, load, states, optimizer, checkpoint
//
// A variant is a kind of layer as it is, or computed again in backward: kind * 2 + (computed again ? 1 : 0).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "ledger/program.h"

namespace steelyard {

struct VariantRun {
  int variant = 0;
  std::int64_t count = 1;
  friend bool operator==(const VariantRun&, const VariantRun&) = default;
};

struct VariantGroup {
  std::vector<VariantRun> runs;
  std::int64_t times = 1;
  friend bool operator==(const VariantGroup&, const VariantGroup&) = default;
};

// A chunk of layers with its ends. Equal ones share their nodes, whatever stages they stand on.
struct StageChunk {
  bool embedding = false, head = false, input_gradient = true, output_gradient = true;
  // The part before, or after, stands on the same stage: tensors are handed over.
  bool hands_in = false, hands_on = false;
  std::int64_t kept_outputs = 0;  // in scaling's buffers
  std::vector<VariantGroup> groups;
  // Of the first micro-batch of a step, and of later ones.
  std::array<NodeId, 2> forward{}, backward{}, input_backward{}, weight_backward{};
  // In the first step of all, with the workspace of autograd's thread.
  NodeId first_step_forward = 0, first_step_backward = 0, first_step_input_backward = 0;
  std::optional<NodeId> last_backward;  // of a step, where the engine tells it from others
  NodeId reduce = 0;  // of torch's runtime: a chunk is reduced when its last micro-batch has run
  SlotId output = -1;
  bool keeps_input_gradient = false;  // on the tensor that it has received
  // torch's first stage has no input to find a gradient for: all of backward waits for the weights' turn.
  bool all_waits = false;
  bool is_like(const StageChunk& other) const {
    return embedding == other.embedding && head == other.head &&
           input_gradient == other.input_gradient && output_gradient == other.output_gradient &&
           hands_in == other.hands_in && hands_on == other.hands_on &&
           kept_outputs == other.kept_outputs && groups == other.groups;
  }
};

// Stages with the same chunks have the same parts; only the order of micro-batches differs.
struct StageParts {
  std::vector<std::size_t> chunks;  // of chunks_
  NodeId load = 0, states = 0, late_states = 0, forward_workspaces = 0, held_later = 0, left = 0,
         begin_step = 0, reduce = 0, prepared = 0, optimizer = 0, checkpoint = 0;
  // Of a divided vocabulary, in the order of their StepKind: in the first micro-batch of a step, and in later ones.
  std::array<std::array<NodeId, 2>, 4> vocabulary{};
};

}  // namespace steelyard
