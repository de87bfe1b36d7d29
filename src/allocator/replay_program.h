// Plays a rank's program through the caching allocator, step after step, until what is reserved no longer changes.
//
//   first    load, forward and backward, then the optimizer's states, the step    (once: segments are made here)
//   step     forward and backward, the step                                       (again until a step changes nothing)
//
// Four rules make one line of requests out of a folded program:
//
// 1. Which instance goes. Slots are counted, but it matters which of several equal blocks is freed. The newest goes
//    first, as backward undoes forward. Where several micro-batches are in flight, the k-th "backward" frees what the
//    k-th "forward" made, and of that the newest. What a tape both frees and makes it passes on, as layers do hidden
//    states: of that the oldest goes first, the one that was there when the tape began.
// 2. One block for each slot's instance, unless `tensors` says of which it is made; they appear in that order. Slots that
//    are woven and follow one another with equal counts appear tensor by tensor.
// 3. Each slot has one stream (allocator/slot_streams.h), and a freed block can be used at once; but for those that a
//    collective used and that are recorded on its stream: they come back when the device has passed the collective, and
//    the device is as many launches behind as its queue holds. It has caught up where a step begins, and in the first
//    step the host is not ahead: it loads and compiles kernels, opens communicators and asks the driver for memory.
// 4. A repeat that ends where it began is played until a round leaves the allocator and every live block as an earlier
//    round left them. What follows is then known: the rounds between the two, over and over. All peaks have been seen.
//    So it is with steps: seldom do two begin alike, but most come to stand alike soon after.
// 5. Frees that follow one another leave the same blocks in any order.
// 6. Where micro-batches differ in length, forward and backward of each are those of the program of its length. Such
//    programs have the same nodes and slots, and their slots other sizes.
#pragma once

#include <array>
#include <limits>
#include <optional>
#include <vector>

#include "allocator/caching_allocator.h"
#include "allocator/program_watcher.h"
#include "ledger/program.h"
#include "ledger/slot_tensors.h"

namespace steelyard {

struct StepPlan {
  std::vector<NodeId> first, step;
};

struct ReplayLimits {
  static constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();
  int steps = 12;  // beyond the first
  // Of a repeat that ends where it began; those that follow are taken to be like these.
  std::int64_t rounds = kNoLimit;
  std::int64_t events = 40'000'000;  // requests and frees
  // Once more than this is reserved the replay ends (`is_over`), unless the limit of events may be met before its end.
  std::int64_t reserved = kNoLimit;
  // False: a step in whose midst everything stands as it stood there in an earlier step is not played to its end, which is
  // known. All numbers are the same, and `segments` are left out.
  bool whole_steps = true;
};

struct LaunchQueue {
  std::int64_t depth = 0;                   // launches that the device is behind its host; 0: none
  std::vector<std::int64_t> launches;       // of kernels, by tape
  Exchanged recorded = Exchanged::kBeside;  // kWaitedFor: also what computation waits for at once
};

// Programs of the same step with other lengths, and which of them each micro-batch is; none: all are alike.
struct MicroBatchLengths {
  struct OfLength {
    const Program* program = nullptr;
    const std::vector<SlotTensors>* tensors = nullptr;
  };
  std::vector<OfLength> lengths;
  std::vector<std::size_t> order;  // of `lengths`, by micro-batch; over and over
  bool empty() const { return lengths.empty() || order.empty(); }
};

struct PhaseReserve {
  bool occurs = false;
  Bytes allocated{}, active{}, reserved{};  // highest, each at its own moment
  Bytes reserved_at_peak{};                 // when `allocated` was highest
  Bytes slack_at_peak() const { return reserved_at_peak - allocated; }
};

struct ProgramReserve {
  std::array<PhaseReserve, kPhaseCount> first_pass, phases;  // `phases`: of all passes
  std::vector<Bytes> reserved_after;                         // the first pass, then each step
  bool settled = false;                                      // a step ended as an earlier one had
  std::int64_t events = 0;
  std::int64_t played_events = 0;  // without those that are known of an earlier step
  bool cut = false;                // ended by the limit of events
  bool is_over = false;            // ended by the limit of what is reserved
  bool shortened = false;          // a repeat was longer than the limit of rounds
  AllocatorStatistics statistics;
  std::vector<Segment> segments;  // at the end, of whole steps
  Fragmentation fragmentation;    // of them
  std::optional<OutOfMemory> out_of_memory;
  SlotId refused = -1;
};

ProgramReserve replay_in_allocator(const Program& program, const StepPlan& plan,
                                   const AllocatorSettings& settings = {},
                                   const DeviceMemory& device = {},
                                   const std::vector<SlotTensors>& tensors = {},
                                   const ReplayLimits& limits = {},
                                   ProgramWatcher* watcher = nullptr, const LaunchQueue& queue = {},
                                   const MicroBatchLengths& lengths = {});

}  // namespace steelyard
