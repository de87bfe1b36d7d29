// Random jobs through the allocator: what it is asked for is, moment by moment, what the program holds, so that no slot
// is freed for another; and steps settle.
#include <gtest/gtest.h>

#include "allocator/replay_program.h"
#include "document/read.h"
#include "engine/stage_program.h"
#include "job/read.h"
#include "random_jobs.h"

namespace steelyard {
namespace {

TEST(AllocatorReplay, AsksForWhatTheProgramHolds) {
  int stages_played = 0;
  int settled = 0;
  for (std::uint64_t seed = 1; seed <= 2'000; ++seed) {
    const ReadJob job = read_job(*read_json(random_job(seed).dump(), "job"));
    ASSERT_TRUE(job);
    StagePrograms<Checked> stages(*job);
    for (std::int64_t stage = 0; stage < job->parallel.pipeline; ++stage) {
      const StageProgram built = stages.build(stage);
      const Program& program = stages.program();
      const NodeId root = built.root;
      const StepPlan plan{{built.first_step}, {built.later_step}};
      AllocatorSettings settings;
      settings.expandable_segments = seed % 4 == 0;
      const ProgramReserve reserve = replay_in_allocator(program, plan, settings);
      if (reserve.out_of_memory) continue;
      const PoolStatistics& all = reserve.statistics.all;
      ASSERT_EQ(all.requested.peak, program.span(root).highest()) << "seed " << seed;
      ASSERT_EQ(all.requested.current, program.span(root).change) << "seed " << seed;
      ASSERT_GE(all.allocated.bytes.peak, all.requested.peak);
      ASSERT_GE(all.reserved.bytes.peak, all.allocated.bytes.peak);
      ASSERT_EQ(Bytes(all.reserved.bytes.current), reserve.fragmentation.used +
                                                       reserve.fragmentation.returnable +
                                                       reserve.fragmentation.stuck);
      ++stages_played;
      settled += reserve.settled ? 1 : 0;
    }
  }
  EXPECT_GT(stages_played, 2'000);
  EXPECT_EQ(settled, stages_played);
}

}  // namespace
}  // namespace steelyard
