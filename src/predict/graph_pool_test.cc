// The pool of a graph: what forward and backward held at most stays while the optimizer runs.
#include <gtest/gtest.h>

#include <string>

#include "document/read.h"
#include "job/read.h"
#include "predict/prediction.h"
#include "predict/prepared_job.h"

namespace steelyard {
namespace {

Job graphed(const std::string& graphs, const std::string& more = "") {
  const auto document =
      read_toml(("model = \"llama-3.2-1b\"\nengine = \"megatron\"\ncuda_graphs = \"" + graphs +
                 "\"\n[cluster]\ndevice = \"h100-sxm-80gb\"\ndevices = "
                 "8\n[training]\nsequence_length = 2048\n"
                 "gradient_accumulation = 8\n[parallel]\nzero_stage = 1\n" +
                 more)
                    .c_str(),
                "run.toml");
  EXPECT_TRUE(document);
  auto job = read_job(*document);
  EXPECT_TRUE(job) << (job ? "" : job.error().front().message);
  return *job;
}

std::int64_t allocated(const Prediction& prediction, Phase phase) {
  for (const PhasePrediction& one : prediction.ranks.front().phases)
    if (one.phase == phase) return one.allocated.value().value();
  ADD_FAILURE() << "no phase " << name_of(phase);
  return 0;
}

TEST(GraphPool, StaysWhileTheOptimizerRuns) {
  const Prediction eager = estimate(graphed("none")), replayed = estimate(graphed("iteration"));
  // Inputs of every micro-batch: 28 bytes a token.
  const std::int64_t inputs = std::int64_t{28} * 2048 * 8;
  EXPECT_EQ(allocated(replayed, Phase::kBackward), allocated(eager, Phase::kBackward) + inputs);
  EXPECT_LT(allocated(eager, Phase::kOptimizer), allocated(eager, Phase::kBackward));
  EXPECT_GE(allocated(replayed, Phase::kOptimizer), allocated(replayed, Phase::kBackward));
}

TEST(GraphPool, OfModulesIsInTheBandAlone) {
  const Prediction eager = estimate(graphed("none")), modules = estimate(graphed("module"));
  EXPECT_EQ(allocated(modules, Phase::kBackward), allocated(eager, Phase::kBackward));
  EXPECT_EQ(modules.peak.device, eager.peak.device);
  EXPECT_GT(modules.peak.high, eager.peak.high);
}

TEST(GraphPool, IsTheSameForASearch) {
  for (const char* graphs : {"none", "module", "iteration"})
    for (const char* more : {"", "pipeline = 2\n", "pipeline = 2\nvirtual_pipeline = 2\n"}) {
      const Job job = graphed(graphs, more);
      const Prediction whole = estimate(job);
      const LayoutNeed need = PreparedJob(job).need();
      EXPECT_EQ(need.device, whole.peak.device) << graphs << " " << more;
      EXPECT_EQ(need.high, whole.peak.high) << graphs << " " << more;
    }
}

TEST(GraphPool, IsReplayedByTheJudge) {
  const Job job = graphed("iteration", "pipeline = 2\n");
  EXPECT_EQ(predict(job).peak.allocated, predict_by_replay(job).peak.allocated);
}

}  // namespace
}  // namespace steelyard
