// Seconds of the optimizer's step: it only reads and writes, so bytes decide.
//
//   fused AdamW, fp32 master, two fp32 moments   reads 4 + 4 + 8, writes 4 + 8, writes the 2-byte copy: 30 B a parameter
//   foreach                                      each of its operators reads and writes lists of its own: about 3 times
//   clipping                                     gradients once for the norm, once more read and written for the factor
//   on the host                                  the memory of the machine decides, which all of its devices share, and the
//                                                link between: 2 B a parameter down, 2 B up (ZeRO-Offload, arXiv 2101.06840)
#pragma once

#include "cost/achieved_rates.h"
#include "job/job.h"
#include "machine/machine.h"

namespace steelyard {

// Bytes that a step reads and writes for each parameter whose states this rank has.
double optimizer_bytes_per_parameter(const Job& job);
// Where the states lie on the host: what its CPU reads and writes for each of them, gradients down, parameters up.
double host_step_bytes_per_parameter(const Job& job);
// `elements`: parameters of this rank, before their states are divided.
double optimizer_seconds(const Job& job, double elements, const Device& device,
                         const Machine& machine, Outlook outlook);

}  // namespace steelyard
