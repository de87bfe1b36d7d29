// What the allocator has to reserve on the device for what one pipeline stage allocates.
//
//   simulated   the stage's own requests, played through PyTorch's caching allocator until a step changes nothing more
//   estimated   a share of what comes and goes, in microseconds: for searches, which ask thousands of times
//
//   StageReserve reserve = simulated_reserve(stages, built, job.allocator, room);
//   reserve.first[backward]   17.2 GiB      reserve.later   18.4      reserve.least   17.9      reserve.most   18.4
//
// Where the device has less room than the allocator would take, it gives cached segments back and asks again. The three
// numbers of a stage, of which none is above the next:
//
//   least    the smallest device that may hold it: what is allocated, in whole segments; where the simulated allocator fails
//            on this device with nothing left to give back, what it lacked then, or what it takes with room to spare if that
//            is less
//   later    what it comes to reserve on this device; where it fails here, what it takes with room to spare (`with_room`)
//   most     what it takes with room to spare, in the worst order of lengths. What a device that is behind withholds
//            (predict/launch_queue.h) may raise `later` above it: the allocator has it back before it fails, others do not
//
// Work beside the training step is not simulated: past errors of the same engine widen both ends (predict/band.h).
#pragma once

#include <array>
#include <cstdint>

#include "allocator/replay_program.h"
#include "engine/stage_program.h"
#include "machine/allocator_settings.h"

namespace steelyard {

class VariedLengths;

// What the device leaves to the allocator, if little, as much as expected or much stands outside of it.
struct AllocatorRoom {
  Bytes most{}, expected{}, least{};
};

struct StageReserve {
  std::array<Bytes, kPhaseCount>
      first{};               // max_memory_reserved within each phase until the first step has ended
  Bytes later{};             // in every phase once nothing changes any more
  Bytes with_room{};         // the same on a device with room to spare
  Bytes least{}, most{};     // the band of `later`
  std::int64_t retries = 0;  // how often cached segments went back for want of room, until then
  bool simulated = false;
  bool is_cut = false;   // too many events: estimated in its place
  bool is_over = false;  // more than it was asked for: not played to its end
};

// Of a step's highest allocation and of what stays between steps: what is reserved once nothing changes any more.
struct LaterReserve {
  Bytes least{}, expected{}, most{};
};
LaterReserve estimated_later_reserve(std::int64_t highest, std::int64_t resident,
                                     CudaGraphs graphs);

// With more events than a search of answers can wait for, the estimate stands instead (`simulated` is false). Where `most` of
// the answer would be above `enough`, nobody asks how far: the replay ends there, and the answer says `is_over`.
StageReserve simulated_reserve(StagePrograms<Checked>& stages, const StageProgram& built,
                               const AllocatorSettings& settings, const AllocatorRoom& room,
                               const LaunchQueue& queue = {},
                               const VariedLengths* lengths = nullptr,
                               std::optional<Bytes> enough = std::nullopt);
StageReserve estimated_reserve(const Program& program, const StageProgram& built,
                               CudaGraphs graphs);
// More than the simulation answers, with room to spare: four times what is allocated, and a GiB. No proof stands behind it: of
// 2,050 stages of random jobs the worst came to 2.96 times. tests/exhaustive/decided_test.cc holds what rests on it to the
// simulation.
Bytes most_reserved(const Program& program, const StageProgram& built);

}  // namespace steelyard
