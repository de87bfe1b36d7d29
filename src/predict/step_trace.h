// The predicted step as a picture: what every rank of a pipeline does when, and what it holds meanwhile.
//
//   rank 0   compute   F0 [compute | waits for tensor] F1 ... B0 ... optimizer
//            tensor            [tensor -------------]
//            memory    parameters, activations, ... at every edge and peak
//
// What computes is one stream, each kind of exchange another: there it lies as long as it takes, and what of it nothing hides
// stands in the passage as a wait, so that a passage's parts fill it. Times are those of predict_time(), the order that of
// schedule/simulate.h; bytes are the ledger's own: before each passage, at its highest point, after it. One rank stands for
// all that share its stage.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cost/time_terms.h"
#include "job/job.h"
#include "ledger/pile.h"

namespace steelyard {

// The streams of a rank: what computes, and each kind of exchange by its term.
inline constexpr std::array kTraceStreams = {
    TimeTerm::kCompute, TimeTerm::kTensor,   TimeTerm::kContext, TimeTerm::kExpert,
    TimeTerm::kData,    TimeTerm::kPipeline, TimeTerm::kOffload, TimeTerm::kHost};

struct TraceSlice {
  std::int64_t rank = 0;
  std::size_t stream = 0;  // of kTraceStreams
  std::string name;        // "forward 3", "waits for tensor", "tensor", "optimizer"
  std::int64_t depth = 0;  // 1: lies within the slice before it of depth 0
  double start = 0, seconds = 0;
};
struct TraceMemory {
  std::int64_t rank = 0;
  double time = 0;
  Piles piles;
};
// Hidden states or their gradients, from the end of one passage to the beginning of another.
struct TraceSend {
  std::int64_t from_rank = 0, to_rank = 0;
  double from = 0, to = 0;
};
struct StepTrace {
  std::vector<std::string> ranks;  // "stage 0 of 4"
  std::vector<TraceSlice> slices;
  std::vector<TraceSend> sends;
  std::vector<TraceMemory> memory;
};

// Of a device whose times are known.
StepTrace step_trace(const Job& job);

// Each passage takes a kilobyte here and three in a trace's file; no viewer opens a longer step.
constexpr std::int64_t kMostTracePassages = 100'000;
// Forward and backward of every micro-batch on every stage and chunk.
std::int64_t trace_passages(const Job& job);

}  // namespace steelyard
