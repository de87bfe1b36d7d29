// Where the estimate is taken for certain of a verdict, the allocator played request by request comes to the same one.
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "document/read.h"
#include "job/read.h"
#include "predict/host_room.h"
#include "predict/prediction.h"
#include "predict/whether_it_fits.h"
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

// Where only the stages that may be the fullest are played, the verdict and the peak are those of all stages played.
TEST(PredictFullest, IsTheVerdictAndThePeakOfAllStages) {
  int estimated = 0, stages = 0;
  constexpr int kJobs = 3'000;
  for (std::uint64_t seed = 90'001; seed <= 90'000 + kJobs; ++seed) {
    const ReadJob job = read_job(*read_json(random_job(seed).dump(), "job"));
    ASSERT_TRUE(job);
    if (job->parallel.pipeline == 1) continue;
    const Prediction quick = predict_fullest(*job);
    const Prediction played = predict(*job);
    const std::string where = "seed " + std::to_string(seed) + ": " + random_job(seed).dump();
    ASSERT_EQ(quick.verdict, played.verdict) << where;
    ASSERT_EQ(quick.peak.device, played.peak.device) << where;
    ASSERT_EQ(quick.peak.reserved, played.peak.reserved) << where;
    ASSERT_EQ(quick.peak.low, played.peak.low) << where;
    ASSERT_EQ(quick.peak.high, played.peak.high) << where;
    ASSERT_EQ(quick.peak.pipeline, played.peak.pipeline) << where;
    ASSERT_EQ(quick.host_of_node, played.host_of_node) << where;
    for (std::size_t rank = 0; rank < quick.ranks.size(); ++rank) {
      ++stages;
      estimated += quick.ranks[rank].estimated ? 1 : 0;
      if (quick.ranks[rank].estimated) continue;
      ASSERT_EQ(quick.ranks[rank].device, played.ranks[rank].device) << where;
    }
  }
  // Most random pipelines are shallow, and their ends are always played.
  EXPECT_GT(estimated, stages / 10);
}

// Deep pipelines of models with a name: their stages differ by little.
TEST(PredictFullest, IsThePeakOfAllStagesOfDeepPipelines) {
  const std::string model = R"({"model": "llama-3.1-405b", "engine": "megatron", )";
  const std::string cluster = R"("cluster": {"device": "b300", "devices": )";
  for (
      const char* rest :
      {R"(504}, "parallel": {"tensor": 8, "pipeline": 63}, "training": {"gradient_accumulation": 128}})",
       R"(336}, "parallel": {"tensor": 8, "pipeline": 42}, "training": {"gradient_accumulation": 42},)"
       R"( "recompute": {"mode": "selective"}})",
       R"(144}, "parallel": {"tensor": 8, "pipeline": 18, "virtual_pipeline": 7, "schedule": "interleaved"},)"
       R"( "training": {"gradient_accumulation": 36}, "recompute": {"mode": "full"}})",
       R"(168}, "parallel": {"tensor": 8, "pipeline": 21, "schedule": "zb-v"},)"
       R"( "training": {"gradient_accumulation": 42}})"}) {
    const std::string text = model + cluster + rest;
    const ReadJob job = read_job(*read_json(text, "job"));
    ASSERT_TRUE(job) << text << job.error().front().message;
    const Prediction quick = predict_fullest(*job);
    const Prediction played = predict(*job);
    EXPECT_EQ(quick.verdict, played.verdict) << text;
    EXPECT_EQ(quick.peak.device, played.peak.device) << text;
    EXPECT_EQ(quick.peak.low, played.peak.low) << text;
    EXPECT_EQ(quick.peak.high, played.peak.high) << text;
  }
}

// What surely fits has the numbers of predict_fullest(), and nothing else has any.
TEST(PredictIfItFits, IsThePredictionOfWhatFits) {
  int fits = 0, does_not = 0;
  constexpr int kJobs = 1'500;
  for (std::uint64_t seed = 130'001; seed <= 130'000 + kJobs; ++seed) {
    const ReadJob job = read_job(*read_json(random_job(seed).dump(), "job"));
    ASSERT_TRUE(job);
    const Prediction whole = predict_fullest(*job);
    const std::optional<Prediction> asked = predict_if_it_fits(*job);
    const std::string where = "seed " + std::to_string(seed) + ": " + random_job(seed).dump();
    ASSERT_EQ(asked.has_value(), whole.verdict == Verdict::kFits) << where;
    (asked ? fits : does_not) += 1;
    if (!asked) continue;
    ASSERT_EQ(asked->peak.device, whole.peak.device) << where;
    ASSERT_EQ(asked->peak.low, whole.peak.low) << where;
    ASSERT_EQ(asked->peak.high, whole.peak.high) << where;
    ASSERT_EQ(asked->host_of_node, whole.host_of_node) << where;
  }
  EXPECT_GT(fits, kJobs / 10);
  EXPECT_GT(does_not, kJobs / 10);
}

// A search of changes asks this: whether a run is a way out is as predict() says it, and so is what it allocates.
TEST(DecidedWhetherItFits, IsAWayOutWherePredictSaysSo) {
  int played = 0, over = 0;
  constexpr int kJobs = 800;
  for (std::uint64_t seed = 170'001; seed <= 170'000 + kJobs; ++seed) {
    const ReadJob job = read_job(*read_json(random_job(seed).dump(), "job"));
    ASSERT_TRUE(job);
    const Prediction quick = decided_whether_it_fits(*job), whole = predict(*job);
    const std::string where = "seed " + std::to_string(seed) + ": " + random_job(seed).dump();
    ASSERT_EQ(quick.verdict == Verdict::kFits, whole.verdict == Verdict::kFits) << where;
    ASSERT_EQ(only_host_is_unsure(quick), only_host_is_unsure(whole)) << where;
    ASSERT_EQ(quick.host_of_node, whole.host_of_node) << where;
    for (std::size_t rank = 0; rank < quick.ranks.size(); ++rank)
      ASSERT_EQ(quick.ranks[rank].allocated, whole.ranks[rank].allocated) << where;
    played += quick.estimated ? 0 : 1;
    over += quick.estimated && quick.verdict == Verdict::kTight ? 1 : 0;
  }
  EXPECT_GT(played, 0);
  EXPECT_GT(over, 0);
}

}  // namespace
}  // namespace steelyard
