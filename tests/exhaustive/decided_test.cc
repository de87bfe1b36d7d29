// Where the estimate is taken for certain of a verdict, the allocator played request by request comes to the same one.
#include <gtest/gtest.h>

#include "document/read.h"
#include "job/read.h"
#include "predict/prediction.h"
#include "random_jobs.h"

namespace steelyard {
namespace {

TEST(Decided, IsTheVerdictOfThePlayedAllocator) {
  int estimated = 0, unlike = 0;
  constexpr int kJobs = 600;
  for (std::uint64_t seed = 50'001; seed <= 50'000 + kJobs; ++seed) {
    const ReadJob job = read_job(*read_json(random_job(seed).dump(), "job"));
    ASSERT_TRUE(job);
    const Prediction quick = decided(*job);
    const Prediction played = predict(*job);
    ASSERT_EQ(quick.verdict, played.verdict) << "seed " << seed << ": " << random_job(seed).dump();
    // Which stage is the fullest the estimate may see otherwise; what each allocates it does not.
    ASSERT_EQ(quick.ranks.size(), played.ranks.size());
    for (std::size_t rank = 0; rank < quick.ranks.size(); ++rank)
      ASSERT_EQ(quick.ranks[rank].allocated, played.ranks[rank].allocated) << seed;
    estimated += quick.estimated ? 1 : 0;
    if (!quick.estimated) {
      ASSERT_EQ(quick.peak.device, played.peak.device) << seed;
      ASSERT_EQ(quick.peak.high, played.peak.high) << seed;
    }
    unlike += quick.estimated && quick.peak.device != played.peak.device ? 1 : 0;
  }
  EXPECT_GT(estimated, kJobs / 2);
  EXPECT_GT(unlike, 0);
}

}  // namespace
}  // namespace steelyard
