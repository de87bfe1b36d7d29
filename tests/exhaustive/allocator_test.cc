// Random jobs through the allocator: what it is asked for is, moment by moment, what the program holds, so that no slot
// is freed for another and the tensors of a slot add up to it; and steps settle. What searches estimate instead is held
// to what is simulated: how far off it is, this test prints and docs/how-it-works.md says.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <vector>

#include "allocator/replay_program.h"
#include "document/read.h"
#include "engine/stage_program.h"
#include "job/read.h"
#include "predict/launch_queue.h"
#include "predict/reserve.h"
#include "random_jobs.h"

namespace steelyard {
namespace {

// A request just below max_split_size_mb is rounded up to a segment that reaches it, and get_free_block never hands out
// such a block for less again (c10/cuda/CUDACachingAllocator.cpp): every step takes new ones, until the device is full.
bool grows_for_ever(const ProgramReserve& reserve, const AllocatorSettings& settings) {
  return settings.max_split_size.has_value() &&
         std::adjacent_find(reserve.reserved_after.begin(), reserve.reserved_after.end(),
                            std::greater_equal<>()) == reserve.reserved_after.end();
}

// Blocks of one size may change places for many steps, while what is reserved stands still.
bool settles_late(const Program& program, const StepPlan& plan, const AllocatorSettings& settings,
                  const std::vector<SlotTensors>& tensors, const ProgramReserve& reserve) {
  ReplayLimits longer;
  longer.steps = 200;
  const ProgramReserve late = replay_in_allocator(program, plan, settings, {}, tensors, longer);
  return late.settled && late.reserved_after.back() == reserve.reserved_after.back() &&
         late.statistics.all.reserved.bytes.peak == reserve.statistics.all.reserved.bytes.peak;
}

// Sixteen settings, on a device with room to spare and on one that gives cached memory back or fails.
AllocatorSettings setting_of(std::uint64_t seed) {
  AllocatorSettings settings;
  settings.expandable_segments = (seed & 1) != 0;
  if ((seed & 2) != 0) settings.roundup_divisions.fill(4);
  if ((seed & 4) != 0) settings.max_split_size = 40_MiB;
  if ((seed & 8) != 0) settings.large_segment = 32_MiB;
  return settings;
}

// A step that is cut short where it comes to stand as an earlier one did has every number of one that is played to its end.
TEST(AllocatorReplay, AShortenedStepCountsAsAWholeOne) {
  std::int64_t whole_events = 0, played = 0, pressed = 0;
  for (std::uint64_t seed = 1; seed <= 600; ++seed) {
    const ReadJob job = read_job(*read_json(random_job(seed).dump(), "job"));
    ASSERT_TRUE(job);
    StagePrograms<Checked> stages(*job, SlotDetail::kTensors);
    const auto stage = static_cast<std::int64_t>(seed) % job->parallel.pipeline;
    const StageProgram built = stages.build(stage);
    const StepPlan plan{{built.first_step}, {built.later_step}};
    const AllocatorSettings settings = seed % 3 == 0 ? job->allocator : setting_of(seed / 3);
    const LaunchQueue queue = seed % 5 == 0
                                  ? LaunchQueue{1024, stages.book().launches, Exchanged::kBeside}
                                  : launch_queue(*job, stages.book().launches);
    DeviceMemory device;
    if (seed % 2 == 0)  // between what is allocated and a quarter more
      device.total = Bytes(stages.program().span(built.root).highest() / 100 *
                           static_cast<std::int64_t>(100 + seed % 26));
    ReplayLimits limits;
    limits.events = 2'000'000;
    limits.rounds = 16;
    const ProgramReserve whole = replay_in_allocator(stages.program(), plan, settings, device,
                                                     stages.book().tensors, limits, nullptr, queue);
    limits.whole_steps = false;
    const ProgramReserve shortened = replay_in_allocator(
        stages.program(), plan, settings, device, stages.book().tensors, limits, nullptr, queue);
    ASSERT_EQ(shortened.reserved_after, whole.reserved_after) << seed;
    ASSERT_EQ(shortened.settled, whole.settled) << seed;
    ASSERT_EQ(shortened.cut, whole.cut) << seed;
    ASSERT_EQ(shortened.events, whole.events) << seed;
    ASSERT_EQ(shortened.out_of_memory.has_value(), whole.out_of_memory.has_value()) << seed;
    ASSERT_EQ(shortened.statistics.all.reserved.bytes.peak,
              whole.statistics.all.reserved.bytes.peak)
        << seed;
    ASSERT_EQ(shortened.statistics.all.active.bytes.peak, whole.statistics.all.active.bytes.peak);
    ASSERT_EQ(shortened.statistics.all.allocated.bytes.peak,
              whole.statistics.all.allocated.bytes.peak);
    ASSERT_EQ(shortened.statistics.retries, whole.statistics.retries) << seed;
    ASSERT_EQ(shortened.statistics.device_allocations, whole.statistics.device_allocations) << seed;
    ASSERT_EQ(shortened.statistics.device_frees, whole.statistics.device_frees) << seed;
    for (std::size_t phase = 0; phase < kPhaseCount; ++phase) {
      ASSERT_EQ(shortened.first_pass[phase].reserved, whole.first_pass[phase].reserved) << seed;
      ASSERT_EQ(shortened.phases[phase].reserved, whole.phases[phase].reserved) << seed;
      ASSERT_EQ(shortened.phases[phase].allocated, whole.phases[phase].allocated) << seed;
      ASSERT_EQ(shortened.phases[phase].active, whole.phases[phase].active) << seed;
      ASSERT_EQ(shortened.phases[phase].reserved_at_peak, whole.phases[phase].reserved_at_peak);
    }
    whole_events += whole.events;
    played += shortened.played_events;
    pressed += whole.statistics.retries > 0 ? 1 : 0;
  }
  EXPECT_LT(played, whole_events);
  EXPECT_GT(pressed, 5);
}

TEST(AllocatorReplay, AsksForWhatTheProgramHolds) {
  int stages_played = 0;
  int settled = 0;
  std::vector<double> errors;
  for (std::uint64_t seed = 1; seed <= 2'000; ++seed) {
    const ReadJob job = read_job(*read_json(random_job(seed).dump(), "job"));
    ASSERT_TRUE(job);
    StagePrograms<Checked> stages(*job, SlotDetail::kTensors);
    for (std::int64_t stage = 0; stage < job->parallel.pipeline; ++stage) {
      const StageProgram built = stages.build(stage);
      const Program& program = stages.program();
      const NodeId root = built.root;
      const StepPlan plan{{built.first_step}, {built.later_step}};
      AllocatorSettings settings = job->allocator;
      if (seed % 4 == 0) settings.expandable_segments = true;
      const ProgramReserve reserve =
          replay_in_allocator(program, plan, settings, {}, stages.book().tensors);
      if (reserve.out_of_memory) continue;
      const PoolStatistics& all = reserve.statistics.all;
      ASSERT_EQ(all.requested.peak, program.span(root).highest())
          << "seed " << seed << ": " << random_job(seed).dump();
      ASSERT_EQ(all.requested.current, program.span(root).change)
          << "seed " << seed << ": " << random_job(seed).dump();
      ASSERT_GE(all.allocated.bytes.peak, all.requested.peak);
      ASSERT_GE(all.reserved.bytes.peak, all.allocated.bytes.peak);
      ASSERT_EQ(Bytes(all.reserved.bytes.current), reserve.fragmentation.used +
                                                       reserve.fragmentation.returnable +
                                                       reserve.fragmentation.stuck);
      if (!settings.expandable_segments) {
        const double simulated = static_cast<double>(all.reserved.bytes.peak);
        const auto estimated = static_cast<double>(
            estimated_reserve(program, built, CudaGraphs::kNone).later.value().value());
        errors.push_back((estimated - simulated) / simulated);
      }
      ++stages_played;
      settled += reserve.settled || grows_for_ever(reserve, settings) ||
                         settles_late(program, plan, settings, stages.book().tensors, reserve)
                     ? 1
                     : 0;
    }
  }
  EXPECT_GT(stages_played, 2'000);
  EXPECT_EQ(settled, stages_played);
  ASSERT_FALSE(errors.empty());
  std::sort(errors.begin(), errors.end());
  const auto at = [&](double share) {
    return errors[static_cast<std::size_t>(share * static_cast<double>(errors.size() - 1))];
  };
  std::printf(
      "estimate against simulation, %zu stages: 5 %% %.3f  25 %% %.3f  median %.3f  75 %% %.3f  95 "
      "%% %.3f\n",
      errors.size(), at(0.05), at(0.25), at(0.5), at(0.75), at(0.95));
  EXPECT_LT(std::abs(at(0.5)), 0.10);
}

}  // namespace
}  // namespace steelyard
