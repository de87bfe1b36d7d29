// What an engine's own Python does beside the operators that it launches: the hooks that gather, reduce and let go, and the
// code of layers that are its own.
//
//   a layer of Llama, in operators      forward   backward
//   ddp                                       0          3
//   fsdp2                                    36         55
//   ZeRO-3: every module has its own        169        156
//   megatron: its layers' own code           25         17
//   nanotron: the same, on one tensor rank   35         37
//   nanotron on several                      49         55
//
// Where TORCH_DISTRIBUTED_DEBUG=DETAIL has the hosts of a group check each collective, that takes more than all of this: 15.5
// operators for each rank.
//
// Timed on one host with plain code beside (truth/host_times.py), and said in its operators: a host that is slow at the one is
// slow at the other. Data: data/host_work.json.
#pragma once

#include "cost/collective_time.h"
#include "cost/held_parameters.h"
#include "job/job.h"

namespace steelyard {

struct HostWork {
  // In operators: of a unit of parameters, of a layer, of each tensor, and of each module that has some.
  struct Hooks {
    double of_unit = 0, of_layer = 0, of_tensor = 0, of_module = 0;
    double of(const HeldParameters& held) const {
      return (held.tensors > 0 ? of_unit : 0) + of_layer * held.layers + of_tensor * held.tensors +
             of_module * held.modules;
    }
  };
  Hooks forward, backward;
  Hooks again;  // of a forward that backward repeats
  double gather =
      0;  // of each tensor and data rank, where parameters that were stepped in parts are gathered
  double replay = 0;  // operators of a captured module's launch
  // Of each rank of a collective, where hosts check it first (Job::checks_collectives).
  double check = 0;
  double check_of(const Group& group) const {
    return group.ranks > 1 ? check * static_cast<double>(group.ranks.value()) : 0;
  }
};

HostWork host_work_of(const Job& job);
// Seconds of an operator on this machine's host.
double operator_seconds(const Device& device, const Machine& machine, Outlook outlook);

}  // namespace steelyard
