// Traces of torch.profiler (Kineto), as `*.pt.trace.json` and `rank0_trace.json` hold them, of 1.8 and later.
//
//   {"schemaVersion": 1, "deviceProperties": [{"totalGlobalMem": ...}], "distributedInfo": {"rank": 1, "world_size": 2},
//    "traceEvents": [{"ph": "X", "cat": "kernel", "name": "...", "ts": 1669783687389324, "dur": 3, "args": {...}},
//                    {"ph": "i", "name": "[memory]", "args": {"Device Type": 1, "Device Id": 0, "Bytes": 512,
//                                                              "Total Allocated": ..., "Total Reserved": ...}}]}
//
// Device types: 0 the host, 1 CUDA, 6 HIP, others other devices. A trace that a kill cut is read to where it breaks.
// Sources: kineto libkineto/src/output_json.cpp, torch/csrc/autograd/profiler_kineto.cpp.
#pragma once

#include <string_view>
#include <tl/expected.hpp>

#include "evidence/evidence.h"

namespace steelyard {

int recognise_profiler_trace(std::string_view head, std::string_view name);
tl::expected<Evidence, Diagnostics> read_profiler_trace(std::string_view bytes,
                                                        std::string_view name);

}  // namespace steelyard
