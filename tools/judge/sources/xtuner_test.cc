#include "sources/literal_row.h"

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

TEST(Xtuner, FineTunesByLength) {
  const LiteralRow row(R"row({"id": "xtuner-llama3-8b-4", "source": {"repo": "InternLM/xtuner",
        "path": "xtuner/configs/llama/llama3_8b/README.md", "commit_or_date": "2024", "table": "Speed"},
        "model": {"name": "Llama3 8B"}, "hardware": {"gpu": "A100 80GB", "gpu_memory_gib": 80, "gpus": 8, "nodes": 1},
        "framework": {"name": "XTuner", "version": "2024"}, "train": {"mode": "full finetune", "seq_len": 32768},
        "parallel": {"dp": 2, "fsdp_zero_stage": 3, "sp": 4},
        "measured": {"oom": false, "tokens_per_s_per_gpu": 1870.2, "tflops_per_gpu": 186.6}})row");
  EXPECT_EQ(row.source(), "xtuner");
  EXPECT_EQ(row.says("engine"), R"("deepspeed")");
  EXPECT_EQ(row.says("parallel.context"), "4");
  EXPECT_EQ(row.says("parallel.context_method"), R"("ulysses")");
  EXPECT_EQ(row.says("parallel.data"), "2");
  EXPECT_EQ(row.says("training.gradient_accumulation"), "4");
  EXPECT_EQ(row.says("recompute.mode"), R"("full")");
  EXPECT_EQ(row.mapped().tokens_per_second, std::optional(1870.2));
}

// Whose attention stays within short documents says nothing of a long sequence's time, and whether it fits all the same.
TEST(Xtuner, PackedDocumentsHaveNoTime) {
  const LiteralRow row(
      R"row({"id": "xtuner-llama2-7b-256k-XT", "source": {"repo": "InternLM/xtuner",
        "path": "docs/zh_cn/accelerate/benchmark.md", "commit_or_date": "186a421c7a1d", "table": "speed benchmark"},
        "model": {"name": "Llama2-7B"},
        "hardware": {"gpu": "A100-SXM4-80GB", "gpu_memory_gib": 80, "gpus": 8, "nodes": 1},
        "framework": {"name": "XTuner", "version": "xtuner 2024"},
        "train": {"mode": "full finetune", "seq_len": 262144, "packing": "packed to max length"},
        "parallel": {"dp": 1, "sp": 8}, "measured": {"oom": false, "tokens_per_s_per_gpu": 2250.4}})row");
  EXPECT_EQ(row.mapped().tokens_per_second, std::nullopt);
  EXPECT_EQ(row.mapped().out_of_memory, std::optional(false));
}

}  // namespace
}  // namespace steelyard
