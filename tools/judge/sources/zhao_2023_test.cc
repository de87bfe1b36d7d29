#include "sources/literal_row.h"

namespace steelyard {
namespace {

TEST(Zhao2023, TheSmallestClusterThatRan) {
  const LiteralRow row(R"row({"id": "fsdp23-minGPT175B-bs1",
        "source": {"title": "Zhao et al. 2023, PyTorch FSDP: Experiences on Scaling Fully Sharded Data Parallel",
        "url_or_repo": "arXiv:2304.11277", "where": "section 5.4 text (Figure 7b)"},
        "model": {"name": "minGPT-175B", "vocab": 50000, "params": "175B"},
        "hardware": {"gpu": "NVIDIA A100 80GB", "gpu_memory_gib": 80, "gpus": "128-512"},
        "framework": {"name": "PyTorch FSDP"}, "train": {"seq_len": 2048, "micro_batch": 1,
        "precision": "BF16 mixed", "optimizer": "Adam",
        "recompute": "activation checkpointing"},
        "parallel": {"fsdp": "FULL_SHARD, backward prefetch, rate limiter"},
        "measured": {"oom": false, "tflops_per_gpu": 173, "mfu": 55}})row");
  EXPECT_EQ(row.source(), "zhao-2023");
  EXPECT_EQ(row.says("cluster.devices"), "128");
  EXPECT_EQ(row.says("model.n_layer"), "96");
  EXPECT_EQ(row.says("recompute.mode"), R"("full")");
  ASSERT_EQ(row.mapped().readings.size(), 0U);
  EXPECT_EQ(row.mapped().stage, std::nullopt);
  EXPECT_EQ(row.mapped().out_of_memory, std::optional(false));
}

}  // namespace
}  // namespace steelyard
