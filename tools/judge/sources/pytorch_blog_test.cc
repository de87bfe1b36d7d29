#include "sources/literal_row.h"

namespace steelyard {
namespace {

TEST(PytorchBlog, EveryBlockIsRecomputed) {
  const LiteralRow row(R"row({"id": "ptblog-fsdp-7B-A100",
        "source": {"title": "PyTorch blog: Maximizing training throughput using PyTorch FSDP (2024-03)",
        "url_or_repo": "pytorch.org/blog/maximizing-training/", "where": "Table 1"},
        "model": {"name": "Llama 2 7B architecture", "params": "7B"},
        "hardware": {"gpu": "NVIDIA A100 80GB", "gpu_memory_gib": 80, "gpus": 128},
        "framework": {"name": "fms-fsdp (PyTorch FSDP)"}, "train": {"seq_len": 4096,
        "micro_batch": 2, "global_batch": 256, "precision": "bf16 mixed, AdamW fp32",
        "optimizer": "AdamW", "attention": "SDPA FlashAttention v2", "compile": false,
        "recompute": "none"}, "parallel": {"dp": 128, "fsdp": "FSDP"},
        "measured": {"oom": false, "tokens_per_s_per_gpu": 3700, "mfu": 0.57},
        "derived_by_us": {}})row");
  EXPECT_EQ(row.source(), "pytorch-blog");
  EXPECT_EQ(row.says("model"), R"("llama-2-7b")");
  EXPECT_EQ(row.says("engine"), R"("fsdp1")");
  EXPECT_EQ(row.says("training.micro_batch"), "2");
  EXPECT_EQ(row.says("recompute.mode"), R"("none")");
  ASSERT_EQ(row.mapped().readings.size(), 0U);
  EXPECT_EQ(row.mapped().stage, std::nullopt);
  EXPECT_EQ(row.mapped().out_of_memory, std::optional(false));
}

// The code's own README: compiled, and shards within a machine.
TEST(PytorchBlog, OfItsCode) {
  const LiteralRow row(
      R"row({"id": "fmsfsdp-7b-A100", "source": {"repo": "foundation-model-stack/fms-fsdp",
        "path": "README.md"}, "model": {"name": "Llama2 7b"},
        "hardware": {"gpu": "A100 80GB", "gpu_memory_gib": 80, "gpus": 128, "nodes": 16},
        "train": {"seq_len": 4096, "micro_batch": 2, "precision": "bf16", "compile": true,
        "recompute": "none"}, "parallel": {"dp": 128, "fsdp_zero_stage": "HSDP"},
        "measured": {"oom": false, "tokens_per_s_per_gpu": 4550}})row");
  EXPECT_EQ(row.source(), "fms-fsdp");
  EXPECT_EQ(row.says("model"), R"("llama-2-7b")");
  EXPECT_EQ(row.says("training.compile"), "true");
  EXPECT_EQ(row.says("parallel.replicate"), "16");
  EXPECT_EQ(row.mapped().tokens_per_second, std::optional(4550.0));
}

}  // namespace
}  // namespace steelyard
