// What data-parallel ranks send each other, by engine: bytes for each parameter of this rank, and when. What is frozen is
// gathered to be computed with; it has no gradient, and nothing new to hand out behind a step.
//
//              every micro-batch, beside the layers      once a step
//   fsdp2 3    gather 2 B forward, 2 B backward;         -
//              scatter 4 B (2 B) backward
//      no_sync gather 2 B forward, 2 B backward          scatter 4 B (2 B), beside the last backward
//      stages  -                                         gather 2 B before the first; scatter behind the last
//   ddp        -                                         all-reduce, behind the last backward but for the last bucket
//   megatron   -                                         scatter 4 B, gather 2 B: in front of the step and behind it
//   ZeRO++     gather 1 B forward, 1 B backward (qwZ);       -
//              scatter by two all-to-alls of half a byte (qgZ)
//   scaling    -                                         all-reduce 4 B, gather 2 B: in front of the step and behind it
//   nanotron   -                                         ZeRO 1 as scaling, without ZeRO as ddp, 4 B
//
// Sources: engine-by-engine in docs/rules.md; which parts run beside compute is each engine's default.
#pragma once

#include "job/job.h"
#include "operators/work.h"

namespace steelyard {

struct DataExchange {
  // For each unit of each micro-batch; they run beside its compute.
  double gather_forward = 0, gather_backward = 0, scatter_backward = 0;
  // Codes that all-to-alls exchange in place of the scatter: inside machines, then what is left of it between them.
  double exchange_backward = 0;
  // What the device itself reads and writes to make and to read codes, for each gather and each scatter.
  double traffic_of_gather = 0, traffic_of_scatter = 0;
  // For the whole stage, once a step.
  ExchangeKind reduction = ExchangeKind::kAllReduce;
  double reduce = 0, gather = 0;         // of what is trained
  double gather_units = 0;               // of all, before the first micro-batch
  bool reduces_beside_backward = false;  // of the last micro-batch
  bool gathers_beside_forward = false;   // of the first micro-batch
  double bucket_bytes = 0;   // gradients go in so many messages, of whole tensors; 0: in one
  double exposed_bytes = 0;  // of gradients at least: the last bucket has nothing to hide behind
  double exposed_gather_bytes = 0;  // of parameters: the first bucket
};

DataExchange data_exchange_of(const Job& job);

}  // namespace steelyard
