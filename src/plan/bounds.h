// What no layout can go below: cheap numbers that spare a search most of its work, and never its best answer.
//
//   memory   parameters that are held in any case, and the states of the optimizer, of the average stage
//   time     micro-batches x the work of one micro-batch, of the average stage
//
// Proofs. Memory: the prediction takes the fullest stage; a maximum is no less than the average; the average stage has
// (all parameters) / pipeline of them, and no engine divides a parameter over more than tensor x expert x expert-tensor
// ranks, nor its states over more than all ranks of the stage. What engines add (gradients, buffers, activations, copies)
// is left out. Time: the slowest stage runs every micro-batch, one after the other; it is no faster than the average
// stage; kernels and the exchanges inside a micro-batch are those of the layout without its pipeline and its data ranks.
// Layers computed again only add. Bubbles, data-parallel exchanges and the optimizer are left out.
//
// bounds_test.cc holds both to whole small spaces, candidate by candidate.
#pragma once

#include <optional>

#include "cost/step_time.h"
#include "plan/layout.h"

namespace steelyard {

class MemoryBound {
 public:
  // A job of the recipe, whatever its layout.
  explicit MemoryBound(const Job& job);
  // Bytes on the fullest device, at least.
  double least_bytes(const Layout& layout) const;

 private:
  double parameters_ = 0;
  double weight_ = 0;  // bytes of each that engines keep whole for their layers
  double states_ = 0;  // of master copies and moments
};

// Seconds of one micro-batch through all layers, from the time of a layout without pipeline and with one micro-batch.
double micro_batch_seconds(const StepTime& of_form);
// Of the whole step, at least.
inline double least_seconds(const Layout& layout, double micro_batch) {
  return micro_batch * layout.accumulation / layout.pipeline;
}

}  // namespace steelyard
