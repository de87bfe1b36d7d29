#include "validate/sources/literal_row.h"

namespace steelyard {
namespace {

TEST(Xtuner, ExpertsByLayout) {
  const LiteralRow row(R"row({"id": "xtuner-qwen3-235b-6", "source": {"repo": "InternLM/xtuner",
        "path": "docs/en/benchmark/megatron_moe_benchmark.md", "commit_or_date": "79f213643ba0",
        "table": "tp2, ep8, pp8, select, zero/tp overlap"},
        "model": {"name": "Qwen3-235B-A22B", "layers": 94},
        "hardware": {"gpu": "H800", "gpu_memory_gib": 80, "gpus": 256, "nodes": 32},
        "framework": {"name": "Megatron-LM via Pai-Megatron-Patch 2b201af"},
        "train": {"mode": "pretrain", "seq_len": 4096, "micro_batch": 1, "global_batch": 2048,
        "recompute": "selective moe_act layernorm"}, "parallel": {"dp": 16,
        "fsdp_zero_stage": "distributed optimizer", "tp": 2, "sp": true, "pp": 8, "ep": 8},
        "measured": {"oom": false, "tokens_per_s_per_gpu": 1119.26, "step_time_s": 29.276}})row");
  EXPECT_EQ(row.source(), "xtuner");
  EXPECT_EQ(row.says("model"), R"("qwen3-235b-a22b")");
  EXPECT_EQ(row.says("parallel.pipeline_layout"), "[11, 12, 12, 12, 12, 12, 12, 11]");
  EXPECT_EQ(row.says("recompute.mode"), R"("modules")");
  EXPECT_EQ(row.says("overlap.reduce"), "true");
  EXPECT_EQ(row.says("overlap.tensor"), "true");
  EXPECT_EQ(row.says("experts.dispatcher"), R"("all-to-all")");
  EXPECT_EQ(row.mapped().step_seconds, std::optional(29.276));
}

TEST(Xtuner, ItsComparisonsPrintTooLittle) {
  const LiteralRow row(R"row({"id": "xtuner-llama3-8b-2", "source": {"repo": "InternLM/xtuner"},
        "model": {"name": "Llama3 8B"}, "hardware": {"gpu": "A100 80GB", "gpu_memory_gib": 80, "gpus": 8},
        "train": {"seq_len": 8192}, "parallel": {"dp": 8}, "measured": {"tokens_per_s_per_gpu": 2771.2}})row");
  EXPECT_EQ(row.source(), "xtuner");
  EXPECT_EQ(row.left_out(), "prints no train.micro_batch, no train.recompute");
}

}  // namespace
}  // namespace steelyard
