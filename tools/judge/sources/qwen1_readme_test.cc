#include "sources/literal_row.h"

namespace steelyard {
namespace {

TEST(Qwen1Readme, ZeroThreeOnOneDevice) {
  const LiteralRow row(R"row({"id": "qwen1-1.8B-Full-parameter-1x1-s1024",
        "source": {"title": "Qwen (v1) README: Profiling of Memory and Speed",
        "url_or_repo": "github.com/QwenLM/Qwen (commit 2df8e8ac450f)",
        "where": "README \"Profiling of Memory and Speed\" table; finetune/*.sh and finetune.py for defaults"},
        "model": {"name": "Qwen-1.8B", "params": "1.8B"},
        "hardware": {"gpu": "NVIDIA A100-SXM4-80G", "gpu_memory_gib": 80, "gpus": 1},
        "framework": {"name": "HF Transformers + PEFT + DeepSpeed ZeRO-3"},
        "train": {"seq_len": 1024, "micro_batch": 1, "global_batch": 8, "grad_accum": 8,
        "precision": "bf16", "optimizer": "adamw_torch (finetune.py default)",
        "attention": "FlashAttention 2",
        "recompute": "gradient checkpointing (flag set in the provided scripts)"},
        "parallel": {"dp": 1, "zero_stage": 3}, "measured": {"peak_reported": 43.5,
        "oom": false, "step_time_s": 2.2}})row");
  EXPECT_EQ(row.source(), "qwen1-readme");
  EXPECT_EQ(row.says("engine"), R"("deepspeed")");
  EXPECT_EQ(row.says("parallel.zero_stage"), "3");
  EXPECT_EQ(row.says("training.precision"), R"("bf16-mixed")");
  EXPECT_EQ(row.says("recompute.mode"), R"("full")");
  ASSERT_EQ(row.mapped().readings.size(), 1U);
  EXPECT_EQ(row.reads(0), (std::pair(Meter::kDevice, std::int64_t{46'707'769'344})));
  EXPECT_EQ(row.mapped().stage, std::nullopt);
  EXPECT_EQ(row.mapped().out_of_memory, std::optional(false));
}

}  // namespace
}  // namespace steelyard
