// FSDP2's whole gradients, which wait for the last micro-batch of a step in the type of their reduction.
//
//   first micro-batch   +waiting  -gradient   tensor by tensor, when the parameters have been resharded
//   later ones                    -gradient   added, before they are
//   last                                      what waits is reduced, and goes
//
// Empty where backward gives the type that is reduced: then gradients wait as they are. Source:
// torch/distributed/fsdp/_fully_shard/_fsdp_param.py, to_accumulated_grad_if_needed, accumulate_unsharded_grad_if_needed.
#pragma once

#include <map>
#include <vector>

#include "engine/engine.h"

namespace steelyard {

template <class N>
class WaitingGradients {
 public:
  WaitingGradients() = default;
  WaitingGradients(const EngineContext<N>& context, ElementType reduction);

  bool empty() const { return slots_.empty(); }
  // What is reduced of a gradient that backward has left.
  SlotId reduced(SlotId gradient) const { return empty() ? gradient : slots_.at(gradient); }
  void add_to(const std::vector<SlotId>& gradients, bool first, std::vector<Event>& events) const;
  void keep(const std::vector<SlotId>& gradients, bool first, std::vector<Event>& events) const;

 private:
  std::map<SlotId, SlotId> slots_;  // by gradient
};

}  // namespace steelyard
