#include "sources/literal_row.h"

namespace steelyard {
namespace {

TEST(LlmFoundry, MptIsWeighedAsGpt2) {
  const LiteralRow row(R"row({"id": "llmfoundry-L75", "source": {"repo": "mosaicml/llm-foundry",
        "path": "scripts/train/benchmarking/README.md",
        "table": "H100 80GB BF16 (Large Scale, >= 128 GPUs)"}, "model": {"name": "MPT-70b",
        "params": "64862437376", "layers": 80, "hidden": 8192, "heads": 64, "ffn": 32768,
        "vocab": 50368}, "hardware": {"gpu": "H100 80GB", "gpu_memory_gib": 80, "gpus": 512},
        "framework": {"name": "llm-foundry / Composer (torch FSDP1)"},
        "train": {"mode": "pretrain", "seq_len": 2048, "micro_batch": 8, "global_batch": 4096,
        "grad_accum": 1, "precision": "amp_bf16", "optimizer": "decoupled_adamw (yaml default)",
        "attention": "flash (yaml)", "recompute": "full"}, "parallel": {"dp": 512,
        "fsdp_zero_stage": "FSDP FULL_SHARD (ZeRO-3)", "tp": 1, "pp": 1},
        "measured": {"oom": false, "tokens_per_s_per_gpu": 1007.0, "tflops_per_gpu": 408.0,
        "mfu": 0.4125, "step_time_s": 16.2685}})row");
  EXPECT_EQ(row.source(), "llm-foundry");
  EXPECT_EQ(row.says("model.model_type"), R"("gpt2")");
  EXPECT_EQ(row.says("engine"), R"("fsdp1")");
  EXPECT_EQ(row.says("training.loss"), R"("fused")");
  EXPECT_EQ(row.says("training.optimizer_form"), R"("loop")");
  EXPECT_EQ(row.says("cluster.device"), R"("h100-sxm-80gb")");
  EXPECT_EQ(row.says("parallel.zero_stage"), "3");
  EXPECT_EQ(row.says("recompute.mode"), R"("full")");
  EXPECT_EQ(row.says("model.tie_word_embeddings"), "true");
  ASSERT_EQ(row.mapped().readings.size(), 0U);
  EXPECT_EQ(row.mapped().stage, std::nullopt);
  EXPECT_EQ(row.mapped().out_of_memory, std::optional(false));
}

// The same line as another reader stored it.
TEST(LlmFoundry, TheSameTableTwice) {
  const LiteralRow row(R"row({"id": "mpt-70b-s2048-512xh100_80gb-amp_bf16-mb8-ga1-acTrue",
        "source": {"title": "MosaicML llm-foundry MPT training benchmarks",
        "url_or_repo": "github.com/mosaicml/llm-foundry scripts/train/benchmarking/README.md (commit 8c8dd48f7216)",
        "where": "H100 80GB BF16 (Large Scale, >= 128 GPUs)"}, "model": {"name": "MPT-70b",
        "layers": 80, "hidden": 8192, "heads": 64, "ffn": 32768, "vocab": 50368,
        "params": 64862437376}, "hardware": {"gpu": "NVIDIA H100_80GB", "gpu_memory_gib": 80,
        "gpus": 512}, "framework": {"name": "llm-foundry / Composer (PyTorch FSDP)"},
        "train": {"seq_len": 2048, "micro_batch": 8, "global_batch": 4096, "grad_accum": 1,
        "precision": "amp_bf16", "optimizer": "decoupled_adamw (yaml)",
        "attention": "flash (submit default)",
        "recompute": "full block activation checkpointing"}, "parallel": {"dp": 512,
        "fsdp": "FULL_SHARD (FSDP mixed_precision DEFAULT)"}, "measured": {"oom": false,
        "tokens_per_s_per_gpu": 1007.0, "tflops_per_gpu": 408.0, "mfu": 41.25},
        "derived_by_us": {}})row");
  EXPECT_EQ(row.source(), "mosaicml-mpt");
  EXPECT_EQ(row.left_out(), "the table of llm-foundry, which is judged once");
}

}  // namespace
}  // namespace steelyard
