#include "job/stages.h"

#include <gtest/gtest.h>

#include <numeric>

#include "document/read.h"
#include "job/read.h"

namespace steelyard {
namespace {

using Stages = std::vector<std::int64_t>;

Stages numbers(const std::vector<Layers>& stages) { return Stages(stages.begin(), stages.end()); }

TEST(Stages, Even) {
  EXPECT_EQ(numbers(even_stages(10, 4)), (Stages{3, 3, 2, 2}));
  EXPECT_EQ(numbers(even_stages(2, 4)), (Stages{1, 1, 0, 0}));
}

TEST(Stages, TorchtitanCountsEmbeddingAndHead) {
  EXPECT_EQ(numbers(torchtitan_stages(32, 4)), (Stages{8, 9, 8, 7}));
  EXPECT_EQ(numbers(torchtitan_stages(30, 4)), (Stages{7, 8, 8, 7}));
  EXPECT_EQ(numbers(torchtitan_stages(32, 1)), (Stages{32}));
}

TEST(Stages, NanotronFillsUntilTheShareIsReached) {
  EXPECT_EQ(numbers(nanotron_stages(8, 2, 1, 0)), (Stages{4, 4}));
  EXPECT_EQ(numbers(nanotron_stages(8, 4, 1, 0)), (Stages{2, 2, 2, 2}));
  // A head as heavy as two layers takes them off the last stage.
  EXPECT_EQ(numbers(nanotron_stages(8, 2, 1, 2)), (Stages{5, 3}));
  EXPECT_EQ(numbers(nanotron_stages(9, 2, 1, 2)), (Stages{6, 3}));
  // The 1.34B of the Ultra-Scale Playbook, whose rank 0 printed the parameters of 10 and 5 layers.
  EXPECT_EQ(numbers(nanotron_stages(16, 2, 1, 4)), (Stages{10, 6}));
  EXPECT_EQ(numbers(nanotron_stages(16, 4, 1, 4)), (Stages{5, 5, 5, 1}));
  EXPECT_EQ(numbers(nanotron_stages(4, 8, 1, 0)), (Stages{1, 1, 1, 1, 0, 0, 0, 0}));
}

TEST(Stages, AlwaysSumToTheLayers) {
  for (std::int64_t layers = 1; layers <= 40; ++layers)
    for (std::int64_t pipeline = 1; pipeline <= 12; ++pipeline)
      for (const Stages& stages :
           {numbers(even_stages(layers, pipeline)), numbers(torchtitan_stages(layers, pipeline)),
            numbers(nanotron_stages(layers, pipeline, 7, 30))}) {
        EXPECT_EQ(std::accumulate(stages.begin(), stages.end(), std::int64_t{0}), layers);
        EXPECT_EQ(stages.size(), static_cast<std::size_t>(pipeline));
        for (const std::int64_t count : stages) EXPECT_GE(count, pipeline <= layers ? 0 : -1);
      }
}

Stages stages_of(const std::string& keys) {
  const auto job =
      read_job(*read_toml("model = \"llama-3.1-8b\"\nengine = \"megatron\"\n[cluster]\ndevice = "
                          "\"h100\"\n[parallel]\n" +
                              keys,
                          "run.toml"));
  if (!job) ADD_FAILURE() << job.error()[0].message;
  return job ? numbers(job->parallel.stage_layers) : Stages{};
}

TEST(Stages, MegatronsRules) {
  EXPECT_EQ(stages_of("pipeline = 4"), (Stages{8, 8, 8, 8}));
  EXPECT_EQ(stages_of("pipeline = 4\nfirst_stage_layers = 7\nlast_stage_layers = 7"),
            (Stages{7, 9, 9, 7}));
  EXPECT_EQ(stages_of("pipeline = 2\ncount_embedding = true\ncount_loss = true"), (Stages{16, 16}));
  EXPECT_EQ(stages_of("pipeline = 3\ncount_embedding = true"), (Stages{10, 11, 11}));
  EXPECT_EQ(stages_of("pipeline = 3\npipeline_layout = [10, 12, 10]"), (Stages{10, 12, 10}));
}

}  // namespace
}  // namespace steelyard
