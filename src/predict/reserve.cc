#include "predict/reserve.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "allocator/replay_program.h"
#include "allocator/request_sizes.h"
#include "predict/varied_lengths.h"

namespace steelyard {
namespace {

// A stage that asks for more than this is a model of thousands of experts: a second at most.
constexpr std::int64_t kMostEvents = 3'000'000;
constexpr std::int64_t kMostEventsOfLengths = 60'000'000;  // of some hundred micro-batches
// Equal micro-batches that are played. Twice as many as are in flight have met every block there is.
constexpr std::int64_t kLeastRounds = 16;

// Of what comes and goes in a step, reserved beyond what is allocated (docs/how-it-works.md has the error of this). The
// most is what published logs show that print both: 87 stages of Mist and Aceso and 81 of BigScience reserve 1.02 to 1.24
// times what is allocated.
constexpr double kEstimatedShare = 0.10, kMostShare = 0.25;

// Pools of graphs beside that: modules' add a few GB, a whole iteration's can need twice what comes and goes
// (NVIDIA-NeMo/Megatron-Bridge, skills/nemo-mbridge-perf-cuda-graphs/SKILL.md, pitfalls).
constexpr double kMostShareOfGraph = 1.0;
constexpr Bytes kMostOfGraphedModules = 4_GiB;

// Large segments come in multiples of 2 MiB (CUDACachingAllocator.cpp, kRoundLarge).
Bytes segments(Bytes bytes) { return Bytes(round_up(bytes.value(), kLargeSegmentRounding)); }

Bytes share(Bytes bytes, double part) {
  return Bytes(
      static_cast<std::int64_t>(std::llround(static_cast<double>(bytes.value().value()) * part)));
}

Bytes at(std::int64_t height) { return Bytes(std::max<std::int64_t>(height, 0)); }

Bytes highest_of(const ProgramReserve& played) {
  return Bytes(played.statistics.all.reserved.bytes.peak);
}

// `allocated`: of the longest micro-batch, which comes some day though the played orders may not have it.
void take(const ProgramReserve& played, Bytes allocated, StageReserve& reserve) {
  for (std::size_t phase = 0; phase < kPhaseCount; ++phase)
    reserve.first[phase] = played.first_pass[phase].reserved;
  reserve.later = std::max(highest_of(played), allocated);
  reserve.retries = played.statistics.retries;
}

}  // namespace

LaterReserve estimated_later_reserve(std::int64_t highest, std::int64_t resident,
                                     CudaGraphs graphs) {
  const Bytes allocated = at(highest);
  const Bytes moving = allocated - std::min(allocated, at(resident));
  const bool whole = graphs == CudaGraphs::kIteration;
  Bytes most = allocated + share(moving, whole ? kMostShareOfGraph : kMostShare);
  if (graphs == CudaGraphs::kModule) most = most + kMostOfGraphedModules;
  return {segments(allocated), segments(allocated + share(moving, kEstimatedShare)),
          segments(most)};
}

StageReserve estimated_reserve(const Program& program, const StageProgram& built,
                               CudaGraphs graphs) {
  const Span &later = program.span(built.root), &first = program.span(built.first_step);
  StageReserve reserve;
  const Bytes held = at(program.span(built.before_first_step).change);
  Bytes before{};
  for (std::size_t phase = 0; phase < kPhaseCount; ++phase) {
    const Bytes peak = at(first.peak[phase]);
    const bool loads = static_cast<Phase>(phase) == Phase::kLoad;
    // What the allocator has reserved it keeps for the phases that follow.
    before = std::max(
        before,
        segments(loads ? peak : peak + share(peak - std::min(peak, held), kEstimatedShare)));
    reserve.first[phase] = before;
  }
  const LaterReserve estimated = estimated_later_reserve(later.highest(), later.change, graphs);
  reserve.least = estimated.least;
  reserve.later = reserve.with_room = estimated.expected;
  reserve.most = estimated.most;
  return reserve;
}

Bytes most_reserved(const Program& program, const StageProgram& built) {
  const std::int64_t highest =
      std::max(program.span(built.root).highest(), program.span(built.first_step).highest());
  return at(highest) * Checked(4) + 1_GiB;
}

StageReserve simulated_reserve(StagePrograms<Checked>& stages, const StageProgram& built,
                               const AllocatorSettings& settings, const AllocatorRoom& room,
                               const LaunchQueue& queue, const VariedLengths* lengths,
                               std::optional<Bytes> enough) {
  const Program& program = stages.program();
  StageReserve reserve = estimated_reserve(program, built, CudaGraphs::kNone);
  reserve.is_over = enough && reserve.least > *enough;
  if (reserve.is_over) return reserve;
  const StepPlan plan{{built.first_step}, {built.later_step}};
  ReplayLimits limits;
  limits.events = kMostEvents;
  limits.whole_steps = false;
  limits.rounds = std::max(kLeastRounds, 2 * built.in_flight);
  MicroBatchLengths micro_batches;
  const bool varies = lengths != nullptr && !lengths->empty();
  if (varies) {
    limits.steps = lengths->steps();
    limits.events = kMostEventsOfLengths;
  }
  const auto play = [&](const DeviceMemory& device, const LaunchQueue& behind) {
    return replay_in_allocator(program, plan, settings, device, stages.book().tensors, limits,
                               nullptr, behind, micro_batches);
  };
  Bytes of_worst_order{};
  if (varies) {
    std::vector<std::pair<Bytes, int>> orders;
    for (int order = 0; order < VariedLengths::kOrders; ++order) {
      micro_batches = lengths->ordered(order);
      orders.emplace_back(highest_of(play({}, {})), order);
    }
    std::sort(orders.begin(), orders.end());
    of_worst_order = orders.back().first;
    micro_batches = lengths->ordered(orders[orders.size() / 2].second);
  }
  if (enough) limits.reserved = enough->value().value();
  const ProgramReserve free = play({}, {});
  limits.reserved = ReplayLimits::kNoLimit;
  reserve.is_over = free.is_over;
  if (free.is_over) return reserve;
  reserve.is_cut = free.cut;
  if (free.cut) return reserve;
  reserve.simulated = true;
  const Bytes allocated = segments(
      at(std::max(program.span(built.root).highest(), program.span(built.first_step).highest())));
  take(free, allocated, reserve);
  // What the simulation does not see, the band of observed errors does (predict/band.h).
  const Bytes of_free = reserve.later;
  reserve.most = std::max(of_free, of_worst_order);
  reserve.least = allocated;
  if (queue.depth > 0)
    if (const ProgramReserve behind = play({}, queue); !behind.cut)
      take(behind, allocated, reserve);
  reserve.with_room = reserve.later;
  if (reserve.later <= room.expected || reserve.least > room.most) return reserve;
  const ProgramReserve pressed = play({room.most, Bytes{}}, {});
  if (pressed.out_of_memory) {
    // So much was reserved when nothing was left to give back, and so much was asked for. A device on which the allocator
    // has room to spare ends with less where the blocks of the full one lie worse; then that is enough.
    const Bytes failing = room.most - pressed.out_of_memory->free + pressed.out_of_memory->tried;
    reserve.least = std::min({failing, of_free, reserve.with_room});
    return reserve;
  }
  ProgramReserve expected = play({room.expected, Bytes{}}, queue);
  if (expected.out_of_memory && queue.depth > 0) expected = play({room.expected, Bytes{}}, {});
  if (!expected.out_of_memory) take(expected, allocated, reserve);
  return reserve;
}

}  // namespace steelyard
