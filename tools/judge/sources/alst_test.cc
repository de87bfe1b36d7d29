#include "sources/literal_row.h"

namespace steelyard {
namespace {

TEST(Alst, LongestSequences) {
  const LiteralRow row(
      R"row({"id": "alst25-t1-+tiledloss", "source": {"title": "ALST", "where": "Table 1"},
        "model": {"name": "meta-llama/Llama-3.1-8B-Instruct"},
        "hardware": {"gpu": "NVIDIA H100 80GB", "gpu_memory_gib": 80, "gpus": 8, "nodes": 1},
        "train": {"seq_len": "160K", "micro_batch": 1, "global_batch": 8, "offload": "optimizer states to CPU"},
        "parallel": {"dp": 8, "zero_stage": 3},
        "measured": {"oom": false, "step_time_s": 123, "extra": {"features": ["Liger tiled logits+loss"]}}})row");
  EXPECT_EQ(row.source(), "alst-2025");
  EXPECT_EQ(row.says("training.sequence_length"), "163840");
  EXPECT_EQ(row.says("training.loss"), R"("fused-linear")");
  EXPECT_EQ(row.says("training.kernels"), R"("liger")");
  EXPECT_EQ(row.says("offload.optimizer"), R"("cpu")");
  EXPECT_EQ(row.mapped().step_seconds, std::optional(123.0));
}

TEST(Alst, TiledMlpsAreNotWeighed) {
  const LiteralRow row(
      R"row({"id": "alst25-t1-all", "source": {"title": "ALST"}, "hardware": {"gpus": 8},
        "train": {"seq_len": "3.7M"}, "measured": {"extra": {"features": ["tiled MLP", "Ulysses SP"]}}})row");
  EXPECT_EQ(row.left_out(), "computes its MLPs in tiles");
}

}  // namespace
}  // namespace steelyard
